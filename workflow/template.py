"""The config that `billow init` prints: whole, runnable, every section explained."""

TEMPLATE = """\
# A Billow run. Check it with `billow check THIS.yaml`, start it with `billow run THIS.yaml`.
# Any key can be given on the command line, too: learners.count=4 reducer.rule=median
name: my-run
seed: 1                      # every random draw of the run descends from it

source:                      # where frames come from: `producer` or `contact`
  name: plasma
  producer:                  # a simulation, or a recording, that the run starts
    use: producers.khi:KelvinHelmholtz
    grid: [48, 96]           # cells
    ranks: 4                 # processes, each owns one box
    first_step: 500          # simulation steps on the stream
    last_step: 1000
    period: 10
    momentum_prev: true      # offer the momentum of the step before
  # contact: /scratch/run7/openPMD/simData.sst   # ... or a simulation that runs elsewhere
  on_lost: stop              # or restart
  stream:
    engine: sst              # or bp5
    parameters:              # ADIOS2's own names, as in a PIConGPU .cfg
      QueueLimit: "2"
      QueueFullPolicy: Block # the simulation waits for slow readers; Discard drops the newest
      DataTransport: WAN
    silence_s: 10            # nothing new for so long: the stream is stalled

transforms:                  # actors that turn frames into samples in transit
  count: 2
  chain:
    - {use: "transforms.subsample:Subsample", species: e, particles: 256}
    - {use: "transforms.phase_space:PhaseSpace", species: e, change: always}
  normaliser:
    use: transforms.normalise:RunningNormaliser
    groups: {particles: [[0, 1, 2], [3, 4, 5]]}

held_out: {every: 6}         # every sixth iteration is never trained on, only measured

replay:                      # one shard per part of the batch
  now: 10                    # newest samples
  reservoir: 100             # a fair sample of everything older
  rows: 8                    # of a part: half newest, half replayed
  batches_per_sample: 4      # how often learners train for each new sample

learners:
  count: 2
  model: {use: "learners.autoencoder:PointCloudVAE"}
  optimizer: {use: "learners.optimizers:Adam", lr: 0.003}

reducer:
  rule: mean                 # or median, trimmed_mean, or {use: package.module:Name}
  quorum: 0.5                # offers needed: a share below 1, a number from 1 up
  deadline_s: 20

limits: {}                   # max_steps, steps_after_end
"""
