"""Every numba function of the library: arrays and scalars in, arrays and scalars out.

Import the modules of this package inside the functions that use them, so that ``import multikernel``
does not pay for numba.
"""
