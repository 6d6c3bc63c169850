"""Other particle codes, run on our case: scripts for whatever interpreter has the code installed.

    python -m venv P
    P/bin/pip install mpich                    brings mpicc and libmpi, which the next line needs
    PATH=$PWD/P/bin:$PATH P/bin/pip install lambdapic pipic      (a minute; needs a C compiler)
    billow bench pic --peer-python P/bin/python

Or into Billow's own environment: `pip install mpich`, then `pip install 'billow[bench]'` with that
environment's bin on PATH. Debian's mpich builds lambdapic, too, but does not have the libmpi.so.12
that mpi4py's wheel loads. Both codes are GPL-3: they are called here, and no part is copied.
"""
