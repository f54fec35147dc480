// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/run/schedule_runner.h"

#include <algorithm>
#include <string>
#include <utility>

namespace fusewire::collective {
namespace {

void FillStarts(const Pieces& pieces, std::vector<size_t>* starts) {
  starts->clear();
  if (pieces.count() < 2) return;
  size_t at = 0;
  for (size_t i = 0; i < pieces.count(); ++i) {
    starts->push_back(at);
    at += pieces.at(i).bytes;
  }
}

// Elements are reduced in runs that fit into a cache.
constexpr size_t kRunBytesMax = 128 * 1024;

}  // namespace

Status RunMemory::Begin(const Pieces& input, const Pieces& output) {
  input_ = input;
  output_ = output;
  FillStarts(input_, &input_starts_);
  FillStarts(output_, &output_starts_);
  if (scratch_.empty() && scratch_bytes_ > 0) scratch_ = Buffer::TryAllocate(scratch_bytes_);
  FUSEWIRE_DCHECK(scratch_.empty() || scratch_.size() >= scratch_bytes_);
  if (scratch_.size() >= scratch_bytes_) return Status::Ok();
  return Status::Overloaded("no memory for " + std::to_string(scratch_bytes_) + " bytes of scratch")
      .Next("free memory, or make smaller operations");
}

size_t RunMemory::At(const Span& span, size_t from, uint8_t** data) const {
  const size_t at = span.at * element_bytes_ + from;
  const size_t left = BytesOf(span) - from;
  FUSEWIRE_DCHECK(from < BytesOf(span));
  if (span.memory == Memory::kScratch) {
    FUSEWIRE_DCHECK(at + left <= scratch_bytes_);
    *data = scratch_.bytes().data + at;
    return left;
  }
  const Pieces& pieces = span.memory == Memory::kInput ? input_ : output_;
  FUSEWIRE_DCHECK(at + left <= pieces.bytes());
  if (pieces.count() < 2) {
    *data = static_cast<uint8_t*>(pieces.at(0).data) + at;
    return left;
  }
  const std::vector<size_t>& starts = span.memory == Memory::kInput ? input_starts_ : output_starts_;
  const auto after = std::upper_bound(starts.begin(), starts.end(), at);
  const auto index = static_cast<size_t>(after - starts.begin()) - 1;
  const size_t within = at - starts[index];
  FUSEWIRE_DCHECK(within < pieces.at(index).bytes);
  *data = static_cast<uint8_t*>(pieces.at(index).data) + within;
  return std::min(left, pieces.at(index).bytes - within);
}

Result<std::unique_ptr<ScheduleRunner>> ScheduleRunner::Make(const Request& request, size_t element_bytes,
                                                             p2p::Endpoint* endpoint,
                                                             const std::vector<p2p::Peer*>& peers, RunnerOwner* owner) {
  CompiledSchedule compiled = FUSEWIRE_TRY(CompiledSchedule::Make(request));
  std::unique_ptr<ScheduleRunner> runner(new ScheduleRunner(std::move(compiled), element_bytes, owner));
  runner->MakeOps(endpoint, peers);
  return runner;
}

ScheduleRunner::ScheduleRunner(CompiledSchedule compiled, size_t element_bytes, RunnerOwner* owner)
    : compiled_(std::move(compiled)),
      owner_(owner),
      order_(compiled_),
      memory_(element_bytes, compiled_.scratch_count()),
      runs_(compiled_.nodes().size()),
      work_(compiled_, memory_),
      met_(static_cast<size_t>(compiled_.request().ranks), false) {}

void ScheduleRunner::MakeOps(p2p::Endpoint* endpoint, const std::vector<p2p::Peer*>& peers) {
  for (size_t i = 0; i < runs_.size(); ++i) {
    const Step& step = *compiled_.nodes()[i].step;
    if (step.what == Step::Do::kSend) {
      auto send = std::make_unique<p2p::SendOp>(*endpoint, *peers[static_cast<size_t>(step.peer)], 0);
      send->timeout_ns = kForeverNs;  // the operation as a whole has a deadline
      send->then = [this, i] { OnEnded(i, runs_[i].send->status(), std::nullopt); };
      runs_[i].send = std::move(send);
    } else if (step.what == Step::Do::kReceive) {
      auto receive = std::make_unique<p2p::ReceiveOp>(*endpoint, peers[static_cast<size_t>(step.peer)], 0);
      receive->timeout_ns = kForeverNs;
      receive->then = [this, i] { OnReceiveEnded(i); };
      runs_[i].receive = std::move(receive);
    }
  }
}

// ---- begin ----

void ScheduleRunner::Prepare(const Run& run) {
  FUSEWIRE_DCHECK(!running());
  run_ = run;
  std::fill(met_.begin(), met_.end(), false);
}

void ScheduleRunner::Begin() {
  FUSEWIRE_CHECK(!running());  // else a message of the last run would end in this one
  work_.Begin(run_.reduction);
  EncodeFingerprint(run_.print, Bytes(print_bytes_, sizeof(print_bytes_)));
  status_ = memory_.Begin(run_.arrays.input, run_.arrays.output);
  waiting_sends_.clear();
  failure_.reset();
  for (NodeRun& run : runs_) run.posted = false;
  order_.Begin();
  BeginReady();
}

void ScheduleRunner::BeginReady() {
  while (status_.ok()) {
    const std::optional<size_t> next = order_.TakeNext();
    if (!next.has_value()) return;
    BeginNode(*next);
  }
}

void ScheduleRunner::BeginNode(size_t index) {
  const Step& step = *compiled_.nodes()[index].step;
  NodeRun& run = runs_[index];
  FUSEWIRE_DCHECK(!run.posted);
  switch (step.what) {
    case Step::Do::kReceive: {
      memory_.ViewInto(step.span, &run.receive->segments);
      run.receive->tag = run_.tag;
      ++under_way_;
      SetMet(step.peer);
      run.receive->Post();
      if (owner_->HasLeft(step.peer)) run.receive->Cancel();  // has no effect if its message has arrived
      run.posted = true;
      order_.OnPosted(index);
      break;
    }
    case Step::Do::kSend: {
      ++under_way_;
      if (owner_->IsUp(step.peer)) return PostSend(index);
      waiting_sends_.push_back({step.peer, index});
      break;
    }
    default: work_.Add(index);
  }
}

void ScheduleRunner::PostSend(size_t index) {
  const Node& node = compiled_.nodes()[index];
  FUSEWIRE_DCHECK(!runs_[index].posted);
  FUSEWIRE_DCHECK(under_way_ > 0);  // counted since BeginNode
  p2p::SendOp& send = *runs_[index].send;
  memory_.ViewInto(node.step->span, &send.segments);
  send.tag = run_.tag;
  send.head = node.opens ? ConstBytes(print_bytes_, sizeof(print_bytes_)) : ConstBytes();
  send.confirm = run_.confirm;
  send.Post();
  runs_[index].posted = true;
  order_.OnPosted(index);
}

std::vector<int> ScheduleRunner::TakeUnreached() {
  std::vector<int> ranks;
  for (auto send = waiting_sends_.rbegin(); send != waiting_sends_.rend() && !send->is_taken; ++send) {
    send->is_taken = true;
    ranks.push_back(send->rank);
  }
  return ranks;
}

bool ScheduleRunner::WaitsToReach(int rank) const {
  return std::any_of(waiting_sends_.begin(), waiting_sends_.end(),
                     [rank](const WaitingSend& waiting) { return waiting.rank == rank; });
}

void ScheduleRunner::OnReached(int rank) {
  // Sends that begin meanwhile find their peer up, or are queued behind those that are taken out here.
  const std::vector<WaitingSend> waiting = std::exchange(waiting_sends_, {});
  for (const WaitingSend& one : waiting) {
    if (one.rank == rank) {
      PostSend(one.node);
    } else {
      waiting_sends_.push_back(one);
    }
  }
  BeginReady();
}

// ---- end ----

void ScheduleRunner::OnReceiveEnded(size_t index) {
  std::optional<Fingerprint> differs;
  const Status status = CheckReceived(index, &differs);
  OnEnded(index, status, differs);
}

Status ScheduleRunner::CheckReceived(size_t index, std::optional<Fingerprint>* differs) const {
  const Node& node = compiled_.nodes()[index];
  const p2p::ReceiveOp& receive = *runs_[index].receive;
  const Status& status = receive.status();
  const bool came = status.ok() || status.code() == Code::kInvalid;  // kInvalid: it was larger than the receive
  if (status_.ok() && node.opens && came) {
    const Fingerprint print = FUSEWIRE_TRY(DecodeFingerprint(ConstBytes(receive.head)));
    if (!(print == run_.print)) {
      *differs = print;
      return Status::Ok();
    }
  }
  const size_t expected = memory_.BytesOf(node.step->span);
  if (!status.ok() || receive.bytes == expected) return status;
  return Status::Invalid("a message of " + std::to_string(receive.bytes) + " bytes where " + std::to_string(expected) +
                         " were expected")
      .Next("give the same counts at all ranks");
}

void ScheduleRunner::OnEnded(size_t index, const Status& status, const std::optional<Fingerprint>& differs) {
  FUSEWIRE_CHECK(under_way_ > 0);
  --under_way_;
  if (status.ok() && !differs.has_value()) {
    order_.OnEnded(index);
    BeginReady();
  } else if (status_.ok()) {
    FUSEWIRE_DCHECK(!failure_.has_value());  // the owner takes each
    failure_ = MessageFailure{compiled_.nodes()[index].step->peer, runs_[index].send != nullptr, status, differs};
  }
  if (!running() || has_work() || failure_.has_value() || has_unreached()) owner_->OnMessageEnded(this);
}

std::optional<MessageFailure> ScheduleRunner::TakeFailure() {
  return failure_.has_value() ? std::exchange(failure_, std::nullopt) : std::nullopt;
}

void ScheduleRunner::Fail(const Status& why) {
  FUSEWIRE_DCHECK(!why.ok());
  if (!running() || !status_.ok()) return;
  status_ = why;
  FUSEWIRE_DCHECK(under_way_ >= waiting_sends_.size());
  under_way_ -= waiting_sends_.size();
  waiting_sends_.clear();
  for (const NodeRun& run : runs_) {
    if (p2p::Op* const message = run.under_way()) message->Cancel();
  }
}

void ScheduleRunner::ExpectNoMoreOf(int rank) {
  for (size_t i = 0; i < runs_.size(); ++i) {
    const bool waits = runs_[i].receive != nullptr && compiled_.nodes()[i].step->peer == rank;
    if (waits && runs_[i].under_way() != nullptr) runs_[i].receive->Cancel();
  }
}

std::vector<int> ScheduleRunner::WaitsFor() const {
  std::vector<int> ranks;
  for (size_t i = 0; i < runs_.size(); ++i) {
    if (running() && runs_[i].under_way() != nullptr) ranks.push_back(compiled_.nodes()[i].step->peer);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  return ranks;
}

// ---- work ----

bool ScheduleRunner::Work(size_t bytes_max) {
  for (size_t spent = 0; has_work() && spent < bytes_max;) {
    const std::optional<size_t> ended = work_.DoFirst(bytes_max - spent, &spent);
    if (!ended.has_value()) break;
    order_.OnEnded(*ended);
    // Messages first: they travel while this rank goes on reducing.
    BeginReady();
  }
  return has_work();
}

void StepWork::Begin(const Reduction& reduction) {
  nodes_.Clear();
  done_ = 0;
  if (Reduces(compiled_.request().kind)) reducer_.emplace(reduction);
}

std::optional<size_t> StepWork::DoFirst(size_t bytes_max, size_t* spent) {
  const size_t node = nodes_.front();
  const Step& step = *compiled_.nodes()[node].step;
  FUSEWIRE_DCHECK(step.what == Step::Do::kReduce || step.what == Step::Do::kCopy);
  const size_t element_bytes = memory_.element_bytes();
  const size_t bytes = memory_.BytesOf(step.span);
  ++*spent;  // an empty one, too
  for (size_t read = 0; done_ < bytes && read < bytes_max;) {
    uint8_t* to = nullptr;
    size_t run = std::min(memory_.At(step.span, done_, &to), std::max(kRunBytesMax, element_bytes));
    sources_.clear();
    for (const Span& span : step.from) {
      uint8_t* from = nullptr;
      run = std::min(run, memory_.At(span, done_, &from));
      sources_.push_back(from);
    }
    run -= run % element_bytes;
    FUSEWIRE_DCHECK(run > 0);  // pieces hold whole elements
    if (step.what == Step::Do::kCopy) {
      CopyPayload(to, sources_[0], run);
    } else {
      const uint64_t ranks = step.last ? static_cast<uint64_t>(compiled_.request().ranks) : 1;
      reducer_->Reduce(to, sources_.data(), sources_.size(), run / element_bytes, ranks);
    }
    done_ += run;
    FUSEWIRE_DCHECK(done_ <= bytes);
    read += run * step.from.size();
    *spent += run * step.from.size();
  }
  if (done_ < bytes) return std::nullopt;
  nodes_.Pop();
  done_ = 0;
  return node;
}

}  // namespace fusewire::collective
