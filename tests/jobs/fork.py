# SPDX-License-Identifier: BSD-3-Clause
"""B08: multiprocessing's children, by fork and by spawn, while sums go on."""
import multiprocessing


def square(x):
    return x * x


def main():
    import numpy
    from mpi4py import MPI
    comm = MPI.COMM_WORLD
    data = numpy.empty(100000)
    for i, method in enumerate(["fork", "spawn", "fork"]):
        with multiprocessing.get_context(method).Pool(2) as pool:
            assert pool.map(square, range(10)) == [x * x for x in range(10)]
            data[:] = i + comm.Get_rank()
            comm.Allreduce(MPI.IN_PLACE, data)
            assert (data == sum(i + r for r in range(comm.Get_size()))).all()
        comm.Allreduce(MPI.IN_PLACE, data)


if __name__ == "__main__":
    main()
