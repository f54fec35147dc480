// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "asked.h"

#include <algorithm>
#include <utility>

#include "fusewire/base/check.h"
#include "handler.h"
#include "judge.h"
#include "member.h"

namespace fusewire::simulation {
namespace {

Use AnswerUse(const Question& question) { return question.deed == Deed::kEcho ? Use::kRequest : Use::kAnswer; }

}  // namespace

std::string WhatDiffers(const Buffers& got, const std::vector<size_t>& sizes, int number, Use use, size_t first) {
  if (got.size() != sizes.size()) {
    return std::to_string(got.size()) + " segments instead of " + std::to_string(sizes.size());
  }
  for (size_t i = 0; i < sizes.size(); ++i) {
    if (got[i].size() != sizes[i]) {
      return "segment " + std::to_string(i) + " has " + std::to_string(got[i].size()) + " bytes instead of " +
             std::to_string(sizes[i]);
    }
    size_t at = Mismatch(got[i].bytes(), PatternOf(number, use, first + i));
    if (at < sizes[i]) return "segment " + std::to_string(i) + " differs at byte " + std::to_string(at);
  }
  return std::string();
}

namespace {

// The task that asked is there and does not stand still.
bool Acts(Run* run, const Record& record) {
  const Task* holder = run->member(record.question->from).TaskOf(record.holder);
  return holder != nullptr && !holder->paused;
}

void CancelNow(Run* run, Record* record) {
  run->journal.Say("call %d is cancelled", record->question->number);
  record->cancelled = true;
  record->call->Cancel();
  // The mail about it is delivered at once.
  run->After(kMillisecondNs, [run, record] {
    if (record->dones > 0 || !Acts(run, *record)) return;
    run->journal.Find("late-done", "call %d goes on after it was cancelled", record->question->number);
  });
}

}  // namespace

Asked::Asked(Run* run, Record* record)
    : rpc::Call(MethodOf(*record->question)),
      run_(*run),
      record_(*record),
      question_(*record->question),
      head_text_(RequestHead(question_)) {
  head = head_text_;
  body = run_.ledger.LendAll(question_.request, question_.number, Use::kRequest);
  timeout_ns = question_.timeout_ns;
}

void Ask(Run* run, Task* task, int number) {
  Record& record = run->record(number);
  const Question& question = *record.question;
  FUSEWIRE_CHECK(!record.started);
  auto call = std::make_unique<Asked>(run, &record);
  Asked* asked = call.get();
  record.started = true;
  record.started_ns = run->now_ns();
  record.holder = task->incarnation;
  record.call = std::move(call);
  rpc::Client& client = task->ClientOf(question.to, question.lane, &record.client);
  run->journal.Say("call %d: %d asks %d, %zu segments", number, question.from, question.to, question.request.size());
  client.Start(asked);
  if (record.dones > 0) run->journal.Find("done-inside-start", "call %d ended inside of Start", number);
  if (question.cancel_after_ns < 0) return;
  run->After(question.cancel_after_ns, [run, number] {
    Record& later = run->record(number);
    if (later.dones == 0 && Acts(run, later)) CancelNow(run, &later);
  });
}

Task* Asked::Holder() {
  Task* task = run_.member(question_.from).TaskOf(record_.holder);
  FUSEWIRE_CHECK(task != nullptr);  // it waits for its calls
  return task;
}

// ---- the answer comes in ----

Result<pipe::Landing> Asked::Land(ConstBytes land_head, const rpc::SegmentSizes& sizes) {
  Journal& journal = run_.journal;
  if (std::exchange(landed_, true)) journal.Find("landed-twice", "call %d", question_.number);
  if (record_.dones > 0) journal.Find("landed-after-done", "call %d", question_.number);
  bool as_planned = sizes.count() == question_.answer.size();
  for (size_t i = 0; as_planned && i < sizes.count(); ++i) as_planned = sizes.at(i) == question_.answer[i];
  bool head_right = land_head.size == question_.answer_head_bytes &&
                    Mismatch(land_head, PatternOf(question_.number, Use::kAnswerHead, 0)) == land_head.size;
  if (!as_planned || !head_right) journal.Find("wrong-bytes", "call %d lands another answer's body", question_.number);
  record_.landed_bytes = static_cast<size_t>(sizes.total());
  Holder()->Hold(record_.landed_bytes);
  switch (question_.place) {
    case Place::kDefault: return Call::Land(land_head, sizes);
    case Place::kDiscard: return pipe::Landing::Discard();
    case Place::kRefuse: return RefusedPlace(question_.number);
    case Place::kOwn:
    case Place::kWrongSize: break;
  }
  return LandInOwn(sizes);
}

// In pieces that have nothing to do with the segments.
Result<pipe::Landing> Asked::LandInOwn(const rpc::SegmentSizes& sizes) {
  size_t total = static_cast<size_t>(sizes.total()) + (question_.place == Place::kWrongSize ? 1 : 0);
  record_.landings.emplace_back(total);
  Bytes left = record_.landings.back().bytes();
  Random random(static_cast<uint64_t>(question_.number));
  for (uint64_t pieces = random.Between(1, 5); pieces > 1; --pieces) {
    Bytes piece = left.Sub(0, random.Between(0, left.size));
    parts_.push_back(piece);
    left = left.From(piece.size);
  }
  parts_.push_back(left);
  return pipe::Landing::Into(parts_.data(), parts_.size());
}

void Asked::OnPart(ConstBytes part_head, Buffers part) {
  Journal& journal = run_.journal;
  if (record_.dones > 0) journal.Find("part-after-done", "call %d", question_.number);
  size_t index = record_.parts_seen;
  bool last = index + 1 == question_.parts.size();
  if (last && run_.meddler.Strikes(Meddle::kSkipPart)) return;
  journal.Say("call %d: part %zu of %zu bytes", question_.number, index, static_cast<size_t>(TotalBytes(part)));
  CheckPart(!last && run_.meddler.Strikes(Meddle::kSwapParts) ? index + 1 : index, part_head, part);
  ++record_.parts_seen;
  if (static_cast<int>(index) == question_.cancel_at_part) {
    CancelNow(&run_, &record_);
  }
}

void Asked::CheckPart(size_t index, ConstBytes part_head, const Buffers& part) {
  int number = question_.number;
  if (index >= question_.parts.size()) {
    run_.journal.Find("wrong-part", "call %d gets part %zu of %zu", number, index, question_.parts.size());
    return;
  }
  bool head_right = Mismatch(part_head, PatternOf(number, Use::kPartHead, index)) == part_head.size;
  if (!head_right) run_.journal.Find("wrong-part", "call %d: part %zu is another one", number, index);
  std::string differs = WhatDiffers(part, question_.parts[index], number, Use::kPart, index << 16);
  if (!differs.empty() && !run_.plan.lies) {
    run_.journal.Find("wrong-bytes", "call %d, part %zu: %s", number, index, differs.c_str());
  }
}

// ---- the end ----

void Asked::OnDone(Status status) {
  Meddler& meddler = run_.meddler;
  if (meddler.Strikes(Meddle::kDropDone)) return;
  if (status.ok() && meddler.Strikes(Meddle::kWrongCode)) status = Status::Internal("meddled");
  if (status.code() == Code::kTimeout && meddler.Strikes(Meddle::kMuteError)) status = Status::Timeout("meddled");
  OnDoneHeard(status);
  if (meddler.Strikes(Meddle::kDoubleDone)) OnDoneHeard(status);
  std::unique_ptr<rpc::Call> self = std::move(record_.call);  // in OnDone a call may go
  UniqueFunction<void(const Status&)> then = std::move(record_.then);
  Run* run = &run_;
  Task* holder = Holder();
  int next = question_.next;
  self.reset();
  if (then) then(status);
  // A call that starts again in OnDone stops when it is cancelled.
  if (next >= 0 && status.code() != Code::kCancelled) Ask(run, holder, next);
}

void Asked::OnDoneHeard(const Status& status) {
  Journal& journal = run_.journal;
  int number = question_.number;
  journal.Say("call %d ends: %s", number, status.ToString().c_str());
  if (++record_.dones > 1) journal.Find("done-twice", "call %d", number);
  if (run_.over || record_.client->gone) journal.Find("done-after-end", "call %d", number);
  record_.done_ns = run_.now_ns();
  bool timed = question_.timeout_ns != kForeverNs;
  if (timed && run_.meddler.Strikes(Meddle::kLateDone)) record_.done_ns += 60 * kSecondNs;
  record_.status = status;
  Holder()->LetGo(std::exchange(record_.landed_bytes, 0));
  Judge(&run_, record_);
  if (status.ok()) {
    CheckAnswer();
  } else if (!reply_body.empty()) {
    journal.Find("half-a-body", "call %d failed and has a body", number);
  }
  for (Landing& landing : record_.landings) {
    if (question_.free_landing) {
      landing.Free();
    } else {
      landing.Seal();
      if (run_.meddler.Strikes(Meddle::kLateWrite)) landing.bytes().data[0] ^= 1;
    }
  }
}

void Asked::CheckAnswer() {
  Journal& journal = run_.journal;
  int number = question_.number;
  if (record_.parts_seen != question_.parts.size()) {
    journal.Find("lost-part", "call %d ends well with %zu of %zu parts", number, record_.parts_seen,
                 question_.parts.size());
  }
  bool head_right = reply_head.size() == question_.answer_head_bytes &&
                    Mismatch(reply_head, PatternOf(number, Use::kAnswerHead, 0)) == reply_head.size();
  if (!head_right) journal.Find("wrong-bytes", "call %d has another head", number);
  const std::vector<size_t>& sizes = question_.answer;
  bool in_own = question_.place == Place::kOwn && landed_;
  if (question_.place == Place::kDefault || sizes.empty()) {
    std::string differs = WhatDiffers(reply_body, sizes, number, AnswerUse(question_), 0);
    if (!differs.empty() && !run_.plan.lies) journal.Find("wrong-bytes", "call %d: %s", number, differs.c_str());
  } else if (in_own) {
    Bytes left = record_.landings.back().bytes();
    for (size_t i = 0; i < sizes.size() && !run_.plan.lies; ++i) {
      size_t at = Mismatch(left.Sub(0, sizes[i]), PatternOf(number, AnswerUse(question_), i));
      if (at < sizes[i]) journal.Find("wrong-bytes", "call %d: segment %zu differs at byte %zu", number, i, at);
      left = left.From(sizes[i]);
    }
  }
  if (question_.place != Place::kDefault && !reply_body.empty()) {
    journal.Find("wrong-place", "call %d has a body that it landed elsewhere", number);
  }
}

}  // namespace fusewire::simulation
