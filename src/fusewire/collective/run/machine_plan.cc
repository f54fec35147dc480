// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How a machine is made: what each step of the schedule waits for.
#include <algorithm>
#include <array>
#include <iterator>
#include <utility>

#include "fusewire/collective/run/machine.h"

namespace fusewire {
namespace collective {
namespace {

// So many stages may be begun before an earlier one has ended: enough to keep a wire busy.
constexpr size_t kWindowStages = 8;
constexpr uint32_t kNobody = UINT32_MAX;
// A message of up to so much is sent at once by endpoints that nobody has told otherwise. What is a little longer goes
// in several of them: cheaper than to ask for it first, or to be told of its end. Two ranks wait for each other, and
// their endpoints send it whole. Part of what ranks agree on, kFingerprintVersion.
constexpr size_t kAtOnceBytes = 8 * 1024;
constexpr size_t kCutBytesMax = 2 * kAtOnceBytes;
constexpr int kCutRanksMin = 3;

// Cuts the messages of a stage, in their order: so the k-th part of a send meets the k-th of its receive.
Stage CutMessages(const Stage& stage, size_t element_bytes) {
  Stage cut;
  const size_t most = std::max<size_t>(kAtOnceBytes / element_bytes, 1);
  for (const Step& step : stage) {
    const bool message = step.what == Step::Do::kSend || step.what == Step::Do::kReceive;
    const size_t bytes = step.part.count * element_bytes;
    if (!message || bytes <= kAtOnceBytes || bytes > kCutBytesMax) {
      cut.push_back(step);
      continue;
    }
    for (size_t done = 0; done < step.part.count; done += most) {
      cut.push_back(step);
      cut.back().part.at += done;
      cut.back().part.count = std::min(most, step.part.count - done);
    }
  }
  return cut;
}

// Who wrote an array last, and who has read it since, stretch by stretch.
class Traces {
 public:
  template <class Need>
  void Read(uint32_t node, size_t at, size_t count, Need need) {
    Cut(at);
    Cut(at + count);
    for (auto it = stretches_.find(at); it != stretches_.end() && it->first < at + count; ++it) {
      if (it->second.writer != kNobody) need(it->second.writer);
      it->second.readers.push_back(node);
    }
  }
  template <class Need>
  void Write(uint32_t node, size_t at, size_t count, Need need) {
    Cut(at);
    Cut(at + count);
    const auto first = stretches_.find(at);
    auto it = first;
    for (; it != stretches_.end() && it->first < at + count; ++it) {
      if (it->second.writer != kNobody) need(it->second.writer);
      for (const uint32_t reader : it->second.readers) need(reader);
    }
    stretches_.erase(std::next(first), it);
    first->second.writer = node;
    first->second.readers.clear();
  }

 private:
  struct Stretch {
    uint32_t writer = kNobody;
    std::vector<uint32_t> readers;
  };
  // A stretch begins here from now on.
  void Cut(size_t at) {
    auto after = stretches_.upper_bound(at);
    const auto before = std::prev(after);
    if (before->first != at) stretches_.emplace_hint(after, at, before->second);
  }

  std::map<size_t, Stretch> stretches_{{0, Stretch{}}};
};

}  // namespace

Machine::Machine(const Request& request, size_t element_bytes, MachineOwner* owner)
    : request_(request),
      element_bytes_(element_bytes),
      owner_(owner),
      hears_from_(static_cast<size_t>(request.ranks), false),
      met_(static_cast<size_t>(request.ranks), false) {}

Result<std::unique_ptr<Machine>> Machine::Make(const Request& request, size_t element_bytes, p2p::Endpoint* endpoint,
                                               const std::vector<p2p::Peer*>& peers, MachineOwner* owner) {
  Result<Schedule> schedule = Compile(request);
  if (!schedule.ok()) return schedule.status();
  std::unique_ptr<Machine> machine(new Machine(request, element_bytes, owner));
  machine->schedule_ = std::move(schedule).value();
  if (request.ranks >= kCutRanksMin) {
    for (Stage& stage : machine->schedule_.stages) stage = CutMessages(stage, element_bytes);
  }
  machine->Flatten();
  machine->FindNeeds();
  machine->ChainMessages();
  machine->MakeOps(endpoint, peers);
  return machine;
}

void Machine::Flatten() {
  size_t count = 0;
  for (const Stage& stage : schedule_.stages) count += stage.size();
  nodes_.resize(count);
  size_t at = 0;
  for (size_t stage = 0; stage < schedule_.stages.size(); ++stage) {
    // Receives first: what comes at once lands at once. Work last, while messages travel.
    for (const int round : {0, 1, 2}) {
      for (const Step& step : schedule_.stages[stage]) {
        const int when = step.what == Step::Do::kReceive ? 0 : step.what == Step::Do::kSend ? 1 : 2;
        if (when != round) continue;
        nodes_[at].step = &step;
        nodes_[at].stage = static_cast<uint32_t>(stage);
        ++at;
      }
    }
    stage_nodes_.push_back(static_cast<uint32_t>(schedule_.stages[stage].size()));
  }
  late_.resize(schedule_.stages.size());
  // What a barrier says is only that others have come so far: its stages wait for each other.
  window_ = request_.kind == Kind::kBarrier ? 0 : kWindowStages;
}

void Machine::Need(size_t node, size_t before) {
  std::vector<uint32_t>& enables = nodes_[before].enables;
  if (node == before || (!enables.empty() && enables.back() == node)) return;
  enables.push_back(static_cast<uint32_t>(node));
  ++nodes_[node].needs;
}

// A step waits for who writes what it reads, and for who reads or writes what it writes. In one stage nobody waits for
// anybody, whatever the order: so all of a stage look before any leaves a trace.
void Machine::FindNeeds() {
  std::array<Traces, 3> traces;
  auto of = [&traces](const Part& part) -> Traces& { return traces[static_cast<size_t>(part.memory)]; };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Step& step = *nodes_[i].step;
    const uint32_t stage = nodes_[i].stage;
    auto need = [this, i, stage](uint32_t before) {
      if (nodes_[before].stage < stage) Need(i, before);
    };
    const auto node = static_cast<uint32_t>(i);
    if (step.what == Step::Do::kSend && step.part.count > 0)
      of(step.part).Read(node, step.part.at, step.part.count, need);
    for (const Part& part : step.from) {
      if (part.count > 0) of(part).Read(node, part.at, part.count, need);
    }
    if (step.what != Step::Do::kSend && step.part.count > 0) {
      of(step.part).Write(node, step.part.at, step.part.count, need);
    }
  }
}

// The k-th send from a to b meets the k-th receive: so they are posted in their order.
void Machine::ChainMessages() {
  const auto ranks = static_cast<size_t>(request_.ranks);
  std::vector<int64_t> last_send(ranks, -1), last_receive(ranks, -1);
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Step& step = *nodes_[i].step;
    if (step.what != Step::Do::kSend && step.what != Step::Do::kReceive) continue;
    const auto peer = static_cast<size_t>(step.peer);
    int64_t& last = step.what == Step::Do::kSend ? last_send[peer] : last_receive[peer];
    nodes_[i].opens = last < 0;
    if (last >= 0) {
      nodes_[static_cast<size_t>(last)].next_posted = static_cast<int64_t>(i);
      ++nodes_[i].needs;
    }
    last = static_cast<int64_t>(i);
    if (step.what == Step::Do::kReceive) hears_from_[peer] = true;
  }
}

void Machine::MakeOps(p2p::Endpoint* endpoint, const std::vector<p2p::Peer*>& peers) {
  for (size_t i = 0; i < nodes_.size(); ++i) {
    Node& node = nodes_[i];
    if (node.step->what == Step::Do::kSend) {
      node.send = std::make_unique<p2p::SendOp>(*endpoint, *peers[static_cast<size_t>(node.step->peer)], 0);
      node.send->timeout_ns = kForeverNs;  // the operation as a whole has a deadline
      node.send->then = [this, i] { OnSendEnded(i); };
    } else if (node.step->what == Step::Do::kReceive) {
      node.receive = std::make_unique<p2p::ReceiveOp>(*endpoint, peers[static_cast<size_t>(node.step->peer)], 0);
      node.receive->timeout_ns = kForeverNs;
      node.receive->then = [this, i] { OnReceiveEnded(i); };
    }
  }
}

}  // namespace collective
}  // namespace fusewire
