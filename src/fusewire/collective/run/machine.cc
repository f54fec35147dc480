// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// How a machine runs. machine_plan.cc has how it is made.
#include "fusewire/collective/run/machine.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire {
namespace collective {
namespace {

// Elements are reduced in runs that stay in a cache.
constexpr size_t kRunBytesMax = 128 * 1024;
constexpr size_t kHurriedWindow = 1;

void FillStarts(const Pieces& pieces, std::vector<size_t>* starts) {
  starts->clear();
  if (pieces.count() < 2) return;
  size_t at = 0;
  for (size_t i = 0; i < pieces.count(); ++i) {
    starts->push_back(at);
    at += pieces.at(i).bytes;
  }
}

}  // namespace

void Machine::Prepare(const Run& run) {
  run_ = run;
  std::fill(met_.begin(), met_.end(), false);
}

void Machine::Begin() {
  FUSEWIRE_CHECK(!running_);
  status_ = Status::Ok();
  if (Reduces(request_.kind)) reducer_.emplace(run_.reduction);
  EncodeFingerprint(run_.print, Bytes(print_bytes_, sizeof(print_bytes_)));
  FillStarts(run_.input, &input_starts_);
  FillStarts(run_.output, &output_starts_);
  if (scratch_.empty() && schedule_.scratch_count > 0) {
    scratch_ = Buffer::TryAllocate(schedule_.scratch_count * element_bytes_);
  }
  if (scratch_.size() < schedule_.scratch_count * element_bytes_) {
    status_ = Status::Overloaded("no memory for " + std::to_string(schedule_.scratch_count * element_bytes_) +
                                 " bytes of scratch")
                  .Next("free memory, or make smaller operations");
  }
  stage_left_ = stage_nodes_;
  open_stage_ = 0;
  for (auto& late : late_) late.clear();
  ready_.clear();
  work_.clear();
  work_at_ = 0;
  nodes_left_ = nodes_.size();
  running_ = true;
  for (Node& node : nodes_) {
    node.left = node.needs;
    node.posted = false;
    node.done = 0;
  }
  if (status_.ok()) {
    for (size_t i = 0; i < nodes_.size(); ++i) {
      if (nodes_[i].needs == 0) Release(i);
    }
  }
  Drain();
}

// All that it waits for has come; perhaps its stage is still too far ahead.
void Machine::Release(size_t node) {
  const size_t stage = nodes_[node].stage;
  const size_t window = run_.hurried ? std::min(window_, kHurriedWindow) : window_;
  if (stage > open_stage_ + window) {
    late_[stage].push_back(static_cast<uint32_t>(node));
  } else {
    ready_.push_back(static_cast<uint32_t>(node));
  }
}

void Machine::Drain() {
  if (draining_) return;
  draining_ = true;
  for (size_t i = 0; i < ready_.size() && status_.ok(); ++i) BeginNode(ready_[i]);
  ready_.clear();
  draining_ = false;
  if (work_at_ < work_.size() && status_.ok()) owner_->OnWorkReady(this);
  EndIfIdle();
}

void Machine::EndIfIdle() {
  if (!running_ || draining_ || under_way_ > 0) return;
  if (status_.ok() && nodes_left_ > 0) return;
  running_ = false;
  owner_->OnMachineEnded(this);
}

void Machine::BeginNode(size_t index) {
  Node& node = nodes_[index];
  const Step& step = *node.step;
  switch (step.what) {
    case Step::Do::kReceive: {
      ViewInto(step.part, &node.receive->parts);
      node.receive->tag = run_.tag;
      ++under_way_;
      met_[static_cast<size_t>(step.peer)] = true;
      node.receive->Post();
      if (owner_->HasLeft(step.peer)) node.receive->Cancel();  // unless its message is there
      OnPosted(index);
      break;
    }
    case Step::Do::kSend: {
      ++under_way_;  // until it is posted it waits with the owner, who posts or fails it
      owner_->OnSendReady(this, step.peer, index);
      break;
    }
    default: work_.push_back(static_cast<uint32_t>(index));
  }
}

void Machine::PostSend(size_t index) {
  Node& node = nodes_[index];
  if (!status_.ok()) {
    --under_way_;
    EndIfIdle();
    return;
  }
  ViewInto(node.step->part, &node.send->parts);
  node.send->tag = run_.tag;
  node.send->head = node.opens ? ConstBytes(print_bytes_, sizeof(print_bytes_)) : ConstBytes();
  node.send->confirm = run_.confirm;
  node.send->Post();
  OnPosted(index);
  Drain();
}

// The next message of the same peer may be posted.
void Machine::OnPosted(size_t index) {
  nodes_[index].posted = true;
  const int64_t next = nodes_[index].next_posted;
  if (next < 0) return;
  Node& later = nodes_[static_cast<size_t>(next)];
  if (--later.left == 0) Release(static_cast<size_t>(next));
}

void Machine::EndNode(size_t index) {
  Node& node = nodes_[index];
  --nodes_left_;
  for (const uint32_t enabled : node.enables) {
    if (--nodes_[enabled].left == 0) Release(enabled);
  }
  --stage_left_[node.stage];
  while (open_stage_ < stage_left_.size() && stage_left_[open_stage_] == 0) {
    ++open_stage_;
    const size_t opened = open_stage_ + (run_.hurried ? std::min(window_, kHurriedWindow) : window_);
    // A wider window may have come meanwhile: all that it opens.
    for (size_t stage = open_stage_; stage <= opened && stage < late_.size(); ++stage) {
      ready_.insert(ready_.end(), late_[stage].begin(), late_[stage].end());
      late_[stage].clear();
    }
  }
}

void Machine::OnSendEnded(size_t index) {
  --under_way_;
  const Status status = nodes_[index].send->status();
  if (!status.ok()) {
    OnMessageError(index, status);
    return;
  }
  EndNode(index);
  Drain();
}

void Machine::OnReceiveEnded(size_t index) {
  --under_way_;
  Node& node = nodes_[index];
  Status status = node.receive->status();
  const bool came = status.ok() || status.code() == Code::kInvalid;  // or it came, and was too large
  if (status_.ok() && node.opens && came) {
    const Status head = owner_->CheckHead(this, node.step->peer, node.receive->head);
    if (!head.ok()) status = head;
  }
  const size_t expected = node.step->part.count * element_bytes_;
  if (status.ok() && node.receive->bytes != expected) {
    status = Status::Invalid("a message of " + std::to_string(node.receive->bytes) + " bytes where " +
                             std::to_string(expected) + " were expected")
                 .Next("give the same counts at all ranks");
  }
  if (!status.ok()) {
    OnMessageError(index, status);
    return;
  }
  EndNode(index);
  Drain();
}

void Machine::OnMessageError(size_t index, const Status& why) {
  if (status_.ok()) {
    owner_->OnMessageFailed(this, nodes_[index].step->peer, nodes_[index].send != nullptr, why);
  } else {
    EndIfIdle();
  }
}

void Machine::Fail(const Status& why) {
  if (!running_ || !status_.ok()) return;
  status_ = why;
  for (const Node& node : nodes_) {
    if (p2p::Op* const message = node.under_way()) message->Cancel();
  }
  EndIfIdle();
}

void Machine::ExpectNoMoreOf(int rank) {
  for (const Node& node : nodes_) {
    if (node.receive != nullptr && node.step->peer == rank && node.under_way() != nullptr) node.receive->Cancel();
  }
}

std::vector<int> Machine::WaitsFor() const {
  std::vector<int> ranks;
  for (const Node& node : nodes_) {
    if (running_ && node.under_way() != nullptr) ranks.push_back(node.step->peer);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

const Pieces* Machine::PiecesOf(Memory memory) const { return memory == Memory::kInput ? &run_.input : &run_.output; }

// How many bytes stand in one piece from byte `from` of the part on, and where.
size_t Machine::SmallRun(Part part, size_t from, uint8_t** data) {
  const size_t at = part.at * element_bytes_ + from;
  const size_t left = part.count * element_bytes_ - from;
  if (part.memory == Memory::kScratch) {
    *data = scratch_.bytes().data + at;
    return left;
  }
  const Pieces& pieces = *PiecesOf(part.memory);
  if (pieces.count() < 2) {
    *data = static_cast<uint8_t*>(pieces.at(0).data) + at;
    return left;
  }
  const std::vector<size_t>& starts = part.memory == Memory::kInput ? input_starts_ : output_starts_;
  const auto after = std::upper_bound(starts.begin(), starts.end(), at);
  const auto index = static_cast<size_t>(after - starts.begin()) - 1;
  const size_t within = at - starts[index];
  *data = static_cast<uint8_t*>(pieces.at(index).data) + within;
  return std::min(left, pieces.at(index).bytes - within);
}

template <class View>
void Machine::ViewInto(const Part& part, std::vector<View>* views) {
  views->clear();
  const size_t bytes = part.count * element_bytes_;
  for (size_t from = 0; from < bytes;) {
    uint8_t* data = nullptr;
    const size_t run = SmallRun(part, from, &data);
    views->push_back(View(data, run));
    from += run;
  }
}

// Does about `bytes_max` of it; returns how much that was.
size_t Machine::WorkOn(Node* node, size_t bytes_max) {
  const Step& step = *node->step;
  const size_t bytes = step.part.count * element_bytes_;
  size_t spent = 0;
  while (node->done < bytes && spent < bytes_max) {
    uint8_t* to = nullptr;
    size_t run = std::min(SmallRun(step.part, node->done, &to), std::max(kRunBytesMax, element_bytes_));
    sources_.clear();
    for (const Part& part : step.from) {
      uint8_t* from = nullptr;
      run = std::min(run, SmallRun(part, node->done, &from));
      sources_.push_back(from);
    }
    run -= run % element_bytes_;
    if (step.what == Step::Do::kCopy) {
      CopyPayload(to, sources_[0], run);
    } else {
      ReduceCall call;
      call.to = to;
      call.sources = sources_.data();
      call.sources_count = sources_.size();
      call.count = run / element_bytes_;
      call.divisor = step.last && reducer_->averages() ? static_cast<uint64_t>(request_.ranks) : 1;
      reducer_->Reduce(call);
    }
    node->done += run;
    spent += run * step.from.size();
  }
  return spent;
}

bool Machine::Work(size_t bytes_max) {
  size_t spent = 0;
  while (status_.ok() && work_at_ < work_.size() && spent < bytes_max) {
    const size_t index = work_[work_at_];
    Node& node = nodes_[index];
    spent += WorkOn(&node, bytes_max - spent) + 1;
    if (node.done < node.step->part.count * element_bytes_) break;
    if (++work_at_ == work_.size()) {
      work_.clear();
      work_at_ = 0;
    }
    EndNode(index);
    // Messages first: they travel while we go on reducing.
    draining_ = true;
    for (size_t i = 0; i < ready_.size() && status_.ok(); ++i) BeginNode(ready_[i]);
    ready_.clear();
    draining_ = false;
  }
  const bool more = status_.ok() && work_at_ < work_.size();
  if (!more) EndIfIdle();
  return more;
}

}  // namespace collective
}  // namespace fusewire
