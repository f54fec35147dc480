// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The peer oneCCL on processors, over the MPI in its package, whose mpirun starts it.
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>
#include <oneapi/ccl.hpp>

#include "bench/collective/loop.h"

namespace fusewire::bench {
namespace {

ccl::communicator Connect() {
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  ccl::shared_ptr_class<ccl::kvs> store;
  ccl::kvs::address_type address;
  if (rank == 0) {
    store = ccl::create_main_kvs();
    address = store->get_address();
  }
  MPI_Bcast(address.data(), static_cast<int>(address.size()), MPI_BYTE, 0, MPI_COMM_WORLD);
  if (rank != 0) store = ccl::create_kvs(address);
  return ccl::create_communicator(ranks, rank, store);
}

class CclGroup final : public Group {
 public:
  CclGroup() : communicator_(Connect()) {}
  int rank() const override { return communicator_.rank(); }
  int ranks() const override { return communicator_.size(); }
  void Barrier() override { ccl::barrier(communicator_).wait(); }
  void Run(const Call& call) override {
    const auto& [what, from, to, count] = call;
    const auto n = static_cast<size_t>(ranks());
    switch (what) {
      case Collective::kAllReduce: ccl::allreduce(from, to, count, ccl::reduction::sum, communicator_).wait(); break;
      case Collective::kAllGather:
        ccl::allgatherv(from, count / n, to, std::vector<size_t>(n, count / n), communicator_).wait();
        break;
      case Collective::kReduceScatter:
        ccl::reduce_scatter(from, to, count / n, ccl::reduction::sum, communicator_).wait();
        break;
      case Collective::kAllToAll: ccl::alltoall(from, to, count / n, communicator_).wait(); break;
    }
  }
  void Broadcast(uint64_t* number) override { MPI_Bcast(number, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD); }

 private:
  ccl::communicator communicator_;
};

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  const ccl::library_version version = ccl::get_library_version();
  const std::string name = "oneCCL " + std::to_string(version.major) + "." + std::to_string(version.minor) + "." +
                           std::to_string(version.update);
  if (fusewire::bench::PrintedVersion(argc, argv, name)) return 0;
  ccl::init();
  MPI_Init(&argc, &argv);
  {
    fusewire::bench::CclGroup group;
    fusewire::bench::MeasureCollectives(group, fusewire::bench::ParseLoopOptions(argc, argv), "oneccl");
  }
  MPI_Finalize();
  return 0;
}
