// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The peer: the MPI that this is built with; its mpirun starts it.
#include <mpi.h>

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
  void AllReduce(const float* from, float* to, size_t count) override {
    MPI_Allreduce(from, to, static_cast<int>(count), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  }
  void Broadcast(uint64_t* number) override { MPI_Bcast(number, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD); }

 private:
  int rank_ = 0;
  int ranks_ = 0;
};

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  fusewire::bench::MpiGroup group;
  fusewire::bench::MeasureAllReduce(group, fusewire::bench::ParseLoopOptions(argc, argv), "mpi");
  MPI_Finalize();
  return 0;
}
