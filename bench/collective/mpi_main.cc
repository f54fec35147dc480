// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The peer: the MPI that this is built with; its mpirun starts it. MPI-4's persistent collectives are its plans, but
// neither MPI has a faster way for them.
#include <mpi.h>

#include <string>

#include "bench/collective/loop.h"

namespace fusewire::bench {
namespace {

class MpiGroup final : public Group {
 public:
  MpiGroup() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks_);
  }
  int rank() const override { return rank_; }
  int ranks() const override { return ranks_; }
  void Barrier() override { MPI_Barrier(MPI_COMM_WORLD); }
  void Run(const Call& call) override {
    const auto& [what, from, to, floats] = call;
    const int count = static_cast<int>(floats), part = count / ranks_;
    switch (what) {
      case Collective::kAllReduce: MPI_Allreduce(from, to, count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); break;
      case Collective::kAllGather: MPI_Allgather(from, part, MPI_FLOAT, to, part, MPI_FLOAT, MPI_COMM_WORLD); break;
      case Collective::kReduceScatter:
        MPI_Reduce_scatter_block(from, to, part, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
        break;
      case Collective::kAllToAll: MPI_Alltoall(from, part, MPI_FLOAT, to, part, MPI_FLOAT, MPI_COMM_WORLD); break;
    }
  }
  void Broadcast(uint64_t* number) override { MPI_Bcast(number, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD); }

 private:
  int rank_ = 0;
  int ranks_ = 0;
};

std::string Name() {
#if defined(OMPI_MAJOR_VERSION)
  return "Open MPI " + std::to_string(OMPI_MAJOR_VERSION) + "." + std::to_string(OMPI_MINOR_VERSION) + "." +
         std::to_string(OMPI_RELEASE_VERSION);
#else
  return std::string("MPICH ") + MPICH_VERSION;
#endif
}

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  if (fusewire::bench::PrintedVersion(argc, argv, fusewire::bench::Name())) return 0;
  MPI_Init(&argc, &argv);
  fusewire::bench::MpiGroup group;
  fusewire::bench::MeasureCollectives(group, fusewire::bench::ParseLoopOptions(argc, argv), "mpi");
  MPI_Finalize();
  return 0;
}
