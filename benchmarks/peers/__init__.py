"""Other particle codes, run on our case: scripts for whatever interpreter has the code installed.

    python -m venv P
    P/bin/pip install mpich                             brings mpicc and libmpi, both needed
    PATH=$PWD/P/bin:$PATH P/bin/pip install lambdapic pipic      needs a C compiler
    billow bench pic --peer-python P/bin/python

Both codes are GPL-3: they are called here, and no part of them is copied.
"""
