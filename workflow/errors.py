"""Every error that Billow raises, in one tree.

    BillowError
    ├── ConfigError (ValueError)    the config or the command line is wrong: nothing was started
    ├── DataError (ValueError)      data is not what its reader needs
    ├── StreamError
    │   ├── StreamBroken            the other side is gone and did not say goodbye
    │   └── StreamTimeout           the other side did not come within our deadline
    ├── NodeLost                    a node of the run graph died, or was taken down
    ├── QuorumError                 too few learners are left for the run to go on
    └── CheckpointError             a checkpoint is missing, torn, or not fit to use

A message gives name, wanted, got, and what to do. Errors of third-party engines are translated
into these in the one room where that engine lives.
"""


class BillowError(Exception):
    """Any error that Billow itself raises."""


class ConfigError(BillowError, ValueError):
    """The config or the command line is wrong; nothing was started."""


class DataError(BillowError, ValueError):
    """Data is not what its reader needs."""


class StreamError(BillowError):
    """A stream cannot do what was asked."""


class StreamBroken(StreamError):
    """The other side is gone and did not say goodbye."""


class StreamTimeout(StreamError):
    """The other side did not come within our deadline."""


class NodeLost(BillowError):
    """A node of the run graph died, or was taken down."""


class QuorumError(BillowError):
    """Too few learners are left for the run to go on."""


class CheckpointError(BillowError):
    """A checkpoint is missing, torn, or not fit to use."""
