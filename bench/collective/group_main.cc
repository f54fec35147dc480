// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Ours: --ranks processes of this program, one endpoint each, over --wire; over shm they share an arena. Every
// collective of two arrays is a plan that is made once. Ranks are not bound: a reactor that shares a single processor
// with the waiting threads does not spin.
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "bench/collective/loop.h"
#include "bench/collective/our_spec.h"
#include "bench/collective/ranks.h"
#include "bench/harness/harness.h"
#include "fusewire/collective/group/group.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/reactor/process_limits.h"
#include "fusewire/task/transport_choice.h"

namespace fusewire::bench {
namespace {

using collective::CollectiveKind;
using collective::CollectiveSpec;
using collective::Pieces;
using collective::Type;

void Must(const Status& status) {
  if (!status.ok()) Die(status.ToString());
}

class EndpointGroup final : public Group {
 public:
  explicit EndpointGroup(std::unique_ptr<collective::Group> group) : group_(std::move(group)) {}
  int rank() const override { return group_->rank(); }
  int ranks() const override { return group_->ranks(); }
  void Barrier() override { Must(group_->Run({})); }
  void Run(const Call& call) override {
    if (plan_ == nullptr || call != call_) plan_ = group_->MakePlan(SpecOf(call_ = call, ranks()));
    Must(plan_->Run());
  }
  void Broadcast(uint64_t* number) override {
    CollectiveSpec spec;
    spec.kind = CollectiveKind::kBroadcast;
    spec.reduction.type = Type::kU64;
    spec.counts = {1};
    spec.to = Pieces(number, sizeof(*number));
    Must(group_->Run(spec));
  }

 private:
  std::unique_ptr<collective::Group> group_;
  Call call_;
  std::unique_ptr<collective::Plan> plan_;
};

// For all sizes: given as a line of a measured table.
collective::TableRow RowOf(const LoopOptions& options) {
  std::string words = options.algorithm;
  if (words.find(':') == std::string::npos) words += ":65536";
  words[words.find(':')] = ' ';
  auto table = collective::ParseTable("all-reduce " + std::to_string(options.ranks) + " 1000000000 " + words);
  Must(table.status());
  return table.value().front();
}

std::string NameOf(int rank) { return "rank" + std::to_string(rank); }

void LiveAsRank(int rank, const LoopOptions& options, Board* board) {
  const std::vector<std::string> addresses = EnterHost(options.hosts, rank, options.ranks);
  p2p::EndpointOptions endpoint_options;
  endpoint_options.pipe.name = NameOf(rank);
  endpoint_options.pool.reactors = 1;
  if (!task::TransportChoiceOf(options.wire, &endpoint_options.wire)) Die("no wire " + options.wire);
  auto endpoint = p2p::Endpoint::Start(std::move(endpoint_options), {addresses[static_cast<size_t>(rank)], 0});
  Must(endpoint.status());
  board->Post(rank, endpoint.value()->address().port);
  collective::GroupOptions group_options;
  group_options.name = "bench";
  group_options.rank = rank;
  // Hosts of the suite paths have processors of their own, as far as the choice of an algorithm is concerned.
  if (options.hosts.empty()) group_options.link_cost.cpus = reactor::UsableCpuCount();
  if (!options.algorithm.empty()) group_options.table.push_back(RowOf(options));
  for (int other = 0; other < options.ranks; ++other) {
    group_options.places.hosts.push_back(options.hosts.empty() ? 0 : other);
    group_options.members.push_back(
        {NameOf(other), {addresses[static_cast<size_t>(other)], static_cast<uint16_t>(board->Await(other))}});
  }
  auto group = collective::Group::Make(*endpoint.value(), std::move(group_options));
  Must(group.status());
  EndpointGroup measured(std::move(group).value());
  MeasureCollectives(measured, options, "fusewire");
  board->Leave(options.ranks);
}

}  // namespace
}  // namespace fusewire::bench

int main(int argc, char** argv) {
  const fusewire::bench::LoopOptions options = fusewire::bench::ParseLoopOptions(argc, argv);
  fusewire::bench::Board* board = fusewire::bench::Board::Make();
  return fusewire::bench::ForkRanks(options.ranks,
                                    [&](int rank) { fusewire::bench::LiveAsRank(rank, options, board); });
}
