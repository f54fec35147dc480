// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The peer gloo, over TCP on loopback; ranks find each other through files in a temporary folder.
// --algorithm ring: the default of gloo and torch; a thread of gloo reads, and wakes the waiting thread.
// --algorithm halving-doubling-sync: in place in fixed buffers; the waiting thread reads, and polls if each
// rank has a processor. It is gloo's fastest algorithm for small sizes, and for most other sizes.
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gloo/allreduce.h>
#include <gloo/allreduce_halving_doubling.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/math.h>
#include <gloo/rendezvous/context.h>
#include <gloo/rendezvous/file_store.h>
#include <gloo/rendezvous/prefix_store.h>
#include <gloo/transport/tcp/device.h>

#include "bench/collective/loop.h"
#include "bench/collective/ranks.h"
#include "bench/harness/harness.h"

namespace fusewire::bench {
namespace {

constexpr std::chrono::seconds kTimeout(60);

using Context = std::shared_ptr<gloo::rendezvous::Context>;
using Device = std::shared_ptr<gloo::transport::Device>;

Context Connect(int rank, int ranks, const std::string& folder, const std::string& name, Device& device) {
  gloo::rendezvous::FileStore files(folder);
  gloo::rendezvous::PrefixStore store(name, files);
  auto context = std::make_shared<gloo::rendezvous::Context>(rank, ranks);
  context->setTimeout(kTimeout);
  context->connectFullMesh(store, device);
  return context;
}

constexpr char kSync[] = "halving-doubling-sync";

class GlooGroup final : public Group {
 public:
  // Two contexts: pairs that the waiting thread reads support only fixed buffers.
  GlooGroup(bool sync, bool busy, Context control, Context data)
      : sync_(sync), control_(std::move(control)), data_(std::move(data)) {
    for (int other = 0; sync && other < data_->size; ++other) {
      if (other != data_->rank) data_->getPair(other)->setSync(true, busy);
    }
  }
  int rank() const override { return control_->rank; }
  int ranks() const override { return control_->size; }
  void Barrier() override {
    gloo::BarrierOptions options(control_);
    gloo::barrier(options);
  }
  void Run(const Call& call) override {
    const auto& [what, from, to, count] = call;
    if (what != Collective::kAllReduce) Die("only all-reduce is measured with gloo");
    if (sync_) {
      AllReduceFixed(from, to, count);
      return;
    }
    gloo::AllreduceOptions options(data_);
    options.setInput(const_cast<float*>(from), count);
    options.setOutput(to, count);
    options.setAlgorithm(gloo::AllreduceOptions::Algorithm::RING);
    options.setReduceFunction(
        [](void* sum, const void* left, const void* right, size_t size) { gloo::sum<float>(sum, left, right, size); });
    gloo::allreduce(options);
  }
  void Broadcast(uint64_t* number) override {
    gloo::BroadcastOptions options(control_);
    options.setOutput(number, 1);
    options.setRoot(0);
    gloo::broadcast(options);
  }

 private:
  void AllReduceFixed(const float* from, float* to, size_t count) {
    if (fixed_ == nullptr || to != to_ || count != count_) {
      fixed_ = std::make_unique<gloo::AllreduceHalvingDoubling<float>>(data_, std::vector<float*>{to},
                                                                       static_cast<int>(count));
      to_ = to;
      count_ = count;
    }
    std::memcpy(to, from, count * sizeof(float));
    fixed_->run();
  }
  const bool sync_;
  const Context control_;
  const Context data_;
  std::unique_ptr<gloo::AllreduceHalvingDoubling<float>> fixed_;
  float* to_ = nullptr;
  size_t count_ = 0;
};

void LiveAsRank(int rank, const LoopOptions& options, const std::string& folder, Board* board) {
  const bool sync = options.algorithm == kSync;
  if (!sync && !options.algorithm.empty() && options.algorithm != "ring")
    Die("--algorithm " + options.algorithm + " is unknown: use ring or halving-doubling-sync");
  // Not bound: the reading thread would take the processor from the thread that waits for it.
  const bool alone = sync && BindRank(rank, options.ranks);
  const std::vector<std::string> addresses = EnterHost(options.hosts, rank, options.ranks);
  Device device = gloo::transport::tcp::CreateDevice(addresses[static_cast<size_t>(rank)].c_str());
  Context control = Connect(rank, options.ranks, folder, "control", device);
  Context data = Connect(rank, options.ranks, folder, "data", device);
  GlooGroup group(sync, alone, std::move(control), std::move(data));
  MeasureCollectives(group, options, "gloo");
  board->Leave(options.ranks);
}

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  if (fusewire::bench::PrintedVersion(argc, argv, "")) return 0;  // it knows none
  const fusewire::bench::LoopOptions options = fusewire::bench::ParseLoopOptions(argc, argv);
  std::string folder = (std::filesystem::temp_directory_path() / "bench_gloo.XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) fusewire::bench::DieOfErrno("can't create the folder " + folder);
  fusewire::bench::Board* board = fusewire::bench::Board::Make();
  const int status = fusewire::bench::ForkRanks(
      options.ranks, [&](int rank) { fusewire::bench::LiveAsRank(rank, options, folder, board); });
  std::filesystem::remove_all(folder);
  return status;
}
