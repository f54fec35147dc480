// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/collective/run/compiled_schedule.h"

#include <array>
#include <iterator>
#include <map>
#include <utility>

#include "fusewire/collective/schedule/schedule_builder.h"

namespace fusewire::collective {
namespace {

// This many stages may begin before an earlier one has ended: enough to keep the network busy.
constexpr size_t kWindowStages = 8;
constexpr uint32_t kNobody = UINT32_MAX;

// The last writer of each stretch of an array, and the readers since then.
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
  // Makes a stretch begin at `at`.
  void Cut(size_t at) {
    auto after = stretches_.upper_bound(at);
    FUSEWIRE_DCHECK(after != stretches_.begin());  // the first stretch begins at 0
    const auto before = std::prev(after);
    if (before->first != at) stretches_.emplace_hint(after, at, before->second);
  }

  std::map<size_t, Stretch> stretches_{{0, Stretch{}}};
};

}  // namespace

CompiledSchedule::CompiledSchedule(const Request& request, Schedule schedule)
    : request_(request), schedule_(std::move(schedule)), receives_from_(static_cast<size_t>(request.ranks), false) {}

Result<CompiledSchedule> CompiledSchedule::Make(const Request& request) {
  Schedule schedule = FUSEWIRE_TRY(Compile(request));
  CompiledSchedule compiled(request, std::move(schedule));
  compiled.Flatten();
  compiled.FindNeeds();
  compiled.ChainMessages();
  compiled.CheckNeeds();
  return compiled;
}

void CompiledSchedule::Flatten() {
  size_t count = 0;
  for (const Stage& stage : schedule_.stages) count += stage.size();
  nodes_.resize(count);
  size_t at = 0;
  for (size_t stage = 0; stage < schedule_.stages.size(); ++stage) {
    // Receives first, so that early messages land directly. Work last, while messages travel.
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
  FUSEWIRE_DCHECK(at == count);
  // The stages of a barrier wait for each other: its messages carry nothing but their order.
  window_ = request_.kind == CollectiveKind::kBarrier ? 0 : kWindowStages;
}

void CompiledSchedule::Need(size_t node, size_t before) {
  FUSEWIRE_DCHECK(before <= node);
  std::vector<uint32_t>& enables = nodes_[before].enables;
  if (node == before || (!enables.empty() && enables.back() == node)) return;
  enables.push_back(static_cast<uint32_t>(node));
  ++nodes_[node].needs;
}

// A step waits for the writers of what it reads, and for the readers and writers of what it writes. Steps of one stage
// never wait for each other, whatever their order.
void CompiledSchedule::FindNeeds() {
  std::array<Traces, 3> traces;
  auto of = [&traces](const Span& span) -> Traces& { return traces[static_cast<size_t>(span.memory)]; };
  for (size_t i = 0; i < nodes_.size(); ++i) {
    const Step& step = *nodes_[i].step;
    const uint32_t stage = nodes_[i].stage;
    auto need = [this, i, stage](uint32_t before) {
      if (nodes_[before].stage < stage) Need(i, before);
    };
    const auto node = static_cast<uint32_t>(i);
    if (step.what == Step::Do::kSend && step.span.count > 0)
      of(step.span).Read(node, step.span.at, step.span.count, need);
    for (const Span& span : step.from) {
      if (span.count > 0) of(span).Read(node, span.at, span.count, need);
    }
    if (step.what != Step::Do::kSend && step.span.count > 0) {
      of(step.span).Write(node, step.span.at, step.span.count, need);
    }
  }
}

// The k-th send from a to b meets the k-th receive, so the messages of a peer are posted in order.
void CompiledSchedule::ChainMessages() {
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
    if (step.what == Step::Do::kReceive) receives_from_[peer] = true;
  }
}

void CompiledSchedule::CheckNeeds() const {
  size_t needs = 0, given = 0;
  for (size_t i = 0; i < nodes_.size(); ++i) {
    needs += nodes_[i].needs;
    given += nodes_[i].enables.size() + (nodes_[i].next_posted >= 0 ? 1 : 0);
    FUSEWIRE_DCHECK(i == 0 || nodes_[i - 1].stage <= nodes_[i].stage);
    FUSEWIRE_DCHECK(nodes_[i].next_posted < 0 || static_cast<size_t>(nodes_[i].next_posted) > i);
  }
  // Otherwise a node would begin too early, or never.
  FUSEWIRE_CHECK(needs == given);
}

void StepOrder::Begin() {
  stage_left_ = compiled_.stage_nodes();
  open_stage_ = 0;
  for (auto& late : late_) late.clear();
  ready_.Clear();
  nodes_left_ = left_.size();
  for (size_t i = 0; i < left_.size(); ++i) left_[i] = compiled_.nodes()[i].needs;
  for (size_t i = 0; i < left_.size(); ++i) {
    if (left_[i] == 0) Release(i);
  }
}

void StepOrder::OnEnded(size_t node) {
  const CompiledSchedule::Node& ended = compiled_.nodes()[node];
  FUSEWIRE_DCHECK(left_[node] == 0);
  FUSEWIRE_DCHECK(nodes_left_ > 0);
  FUSEWIRE_DCHECK(stage_left_[ended.stage] > 0);
  --nodes_left_;
  for (const uint32_t enabled : ended.enables) Meet(enabled);
  --stage_left_[ended.stage];
  while (open_stage_ < stage_left_.size() && stage_left_[open_stage_] == 0) {
    ++open_stage_;
    const size_t opened = open_stage_ + compiled_.window();
    if (opened >= late_.size()) continue;
    for (const uint32_t late : late_[opened]) ready_.Push(late);
    late_[opened].clear();
  }
}

}  // namespace fusewire::collective
