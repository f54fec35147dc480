// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "judge.h"

#include <algorithm>
#include <string>

#include "member.h"

namespace fusewire::simulation {
namespace {

// A timer fires up to one tick late.
constexpr int64_t kToleranceNs = kMillisecondNs;

bool IsTooLarge(const pipe::Options& options, const std::vector<size_t>& sizes) {
  uint64_t total = 0;
  for (size_t size : sizes) total += size;
  const wire::Limits& limits = options.limits;
  return total > limits.body_bytes_max || sizes.size() > limits.segments_max;
}

bool AnswerIsTooLarge(const Run& run, const Question& question) {
  const pipe::Options& options = run.plan.members[static_cast<size_t>(question.to)].pipe;
  bool any = IsTooLarge(options, question.answer);
  for (const auto& part : question.parts) any |= IsTooLarge(options, part);
  return any;
}

struct Case {
  const Run& run;
  const Record& record;
  const Question& question;
  const MemberPlan& asker;
  bool strange;    // the two do not talk to each other
  bool disturbed;  // something has gone wrong between them
};

// The result of a handler that was reached; ok if it answers well.
bool MayBeOk(const Case& which) {
  const Question& question = which.question;
  bool answers = question.deed == Deed::kAnswer || question.deed == Deed::kEcho || question.deed == Deed::kStream ||
                 question.deed == Deed::kForward || question.deed == Deed::kWaitUnwanted;
  bool lands = question.answer.empty() || (question.place != Place::kRefuse && question.place != Place::kWrongSize);
  return answers && lands && !which.strange && which.record.handled == 1;
}

// Empty, or why not.
std::string WhyNotOk(const Case& which) {
  if (which.strange) return "strangers do not answer";
  if (which.record.handled != 1) return "no handler has run";
  return MayBeOk(which) ? "" : "it was meant to fail";
}

bool SameWords(const Status& status, const Status& planned) {
  return status.code() == planned.code() && status.app_code() == planned.app_code() &&
         status.cause() == planned.cause() && status.peer() == planned.peer() && status.phase() == planned.phase() &&
         status.next() == planned.next();
}

std::string WhyNotApplication(const Case& which, const Status& status) {
  int number = which.question.number;
  Deed deed = which.question.deed;
  if (which.strange) return "strangers do not answer";
  bool refused = which.question.place == Place::kRefuse || deed == Deed::kRefusedSink;
  if (refused && status.cause() == RefusedPlace(number).cause() && status.app_code() == RefusedPlace(number).app_code())
    return "";
  if (deed == Deed::kFail && SameWords(status, PlannedFailure(number))) return "";
  // The handler itself reports errors behind it, or in a part of its stream.
  bool cut_short = deed == Deed::kStream && (AnswerIsTooLarge(which.run, which.question) || which.run.plan.tight);
  if ((deed == Deed::kForward || cut_short) && status.cause() == PlannedFailure(number).cause()) return "";
  return "these are not the handler's words";
}

std::string WhyNot(const Case& which, const Status& status) {
  const Record& record = which.record;
  const Question& question = which.question;
  bool impatient = which.asker.client.patience_ns == 0;
  // A peer that greets while too many others do is refused; it may already have sent its last message, and a call.
  bool crowded = which.run.plan.members[static_cast<size_t>(question.to)].pipe.greetings_max < 8;
  switch (status.code()) {
    case Code::kOk: return WhyNotOk(which);
    case Code::kApplication: return WhyNotApplication(which, status);
    case Code::kTimeout:
      if (question.timeout_ns != kForeverNs && record.done_ns - record.started_ns >= question.timeout_ns) return "";
      // The attempt to connect, or the greeting, took too long.
      return impatient && which.disturbed ? "" : "its deadline had not come";
    case Code::kCancelled: return record.cancelled || record.client->closing ? "" : "nobody cancelled it";
    case Code::kUnavailable:
      return which.disturbed || which.strange || crowded || which.run.plan.tight ? "" : "nothing had gone wrong there";
    case Code::kOverloaded: return which.run.plan.tight ? "" : "no limit was near";
    case Code::kCorrupt: return which.run.plan.lies ? "" : "nobody had lied";
    case Code::kRefused: return which.strange || which.run.plan.lies ? "" : "they are no strangers";
    case Code::kInvalid:
      if (question.deed == Deed::kNoMethod || question.place == Place::kWrongSize) return "";
      return IsTooLarge(which.asker.pipe, question.request) ? "" : "the call was fine";
    case Code::kInternal:
      if (question.deed == Deed::kDrop || AnswerIsTooLarge(which.run, question)) return "";
      return "no handler had dropped it";
  }
  return "nobody knows this code";
}

// Whether an error has all that it must have.
const char* MissingWord(const Case& which, const Status& status) {
  if (status.ok()) return nullptr;
  if (status.cause().empty()) return "cause";
  if (status.phase().empty()) return "phase";
  if (status.peer().empty()) return "peer";
  bool by_us = status.code() == Code::kCancelled || status.code() == Code::kApplication;
  if (status.next().empty() && !by_us) return "next step";
  std::string address = Member::AliasOf(which.question.to) + ":5555";
  if (!by_us && status.peer().find(address) == std::string::npos) return "peer's address";
  return nullptr;
}

}  // namespace

Status PlannedFailure(int number) {
  return Status::Application(static_cast<uint32_t>(1000 + number),
                             "the handler of call " + std::to_string(number) + " fails")
      .Peer("a table of call " + std::to_string(number))
      .Phase("looking for it")
      .Next("ask for another one");
}

Status RefusedPlace(int number) {
  return Status::Application(static_cast<uint32_t>(5000 + number), "no place for call " + std::to_string(number));
}

int64_t LatestNs(const Run& run, const Record& record) {
  const Question& question = *record.question;
  if (question.timeout_ns == kForeverNs) return kForeverNs;
  int64_t latest_ns = AddNs(record.started_ns, question.timeout_ns);
  // A stopped task receives nothing.
  int64_t resumed_ns = run.members[static_cast<size_t>(question.from)]->paused_until_ns();
  return std::max(latest_ns, resumed_ns) + kToleranceNs;
}

void Judge(Run* run, const Record& record) {
  const Question& question = *record.question;
  const auto& members = run->plan.members;
  const MemberPlan& asker = members[static_cast<size_t>(question.from)];
  bool strange = asker.stranger != members[static_cast<size_t>(question.to)].stranger;
  Case which{*run, record, question, asker, strange, run->disturbed(question.from, question.to)};
  std::string why_not = WhyNot(which, record.status);
  if (!why_not.empty()) {
    run->journal.Find("unexplained", "call %d may not end so, for %s: %s", question.number, why_not.c_str(),
                      record.status.ToString().c_str());
  }
  const char* missing = MissingWord(which, record.status);
  if (missing != nullptr) {
    run->journal.Find("no-words", "call %d ends without a %s: %s", question.number, missing,
                      record.status.ToString().c_str());
  }
  if (record.done_ns > LatestNs(*run, record)) {
    run->journal.Find("late-done", "call %d ends %.3f ms after its deadline", question.number,
                      static_cast<double>(record.done_ns - record.started_ns - question.timeout_ns) / kMillisecondNs);
  }
}

}  // namespace fusewire::simulation
