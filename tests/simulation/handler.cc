// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "handler.h"

#include <cstring>
#include <utility>

#include "asked.h"
#include "fusewire/base/check.h"
#include "fusewire/reactor/reactor.h"
#include "judge.h"

namespace fusewire::simulation {
namespace {

// Which task owes which answer: a task may be gone when its timer or its Done comes.
struct Debt {
  Run* run;
  int index;
  uint64_t incarnation;
  int number;

  Task* task() const { return run->member(index).TaskOf(incarnation); }
  Owed* owed() const {
    Task* task_now = task();
    return task_now == nullptr ? nullptr : task_now->FindOwed(number);
  }
};

class Sink final : public rpc::RequestSink {
 public:
  Sink(Task* task, size_t size) : memory_(size), held_(task, size), run_(task->run) {
    part_ = memory_.bytes();
    ++run_.sinks;
  }
  ~Sink() override { --run_.sinks; }
  pipe::Landing Where() override { return pipe::Landing::Into(&part_, 1); }
  Bytes bytes() const { return part_; }
  void LetGo() { held_.LetGo(); }

 private:
  Landing memory_;
  Bytes part_;
  Held held_;
  Run& run_;
};

const Question* FindQuestion(Task* task, ConstBytes head) {
  uint32_t number = 0;
  if (head.size < sizeof(number)) return nullptr;
  std::memcpy(&number, head.data, sizeof(number));
  const auto& questions = task->run.plan.questions;
  if (number >= questions.size() || questions[number].to != task->index) return nullptr;
  return head.ToString() == RequestHead(questions[number]) ? &questions[number] : nullptr;
}

Result<std::unique_ptr<rpc::RequestSink>> MakeSink(Task* task, ConstBytes head, const rpc::SegmentSizes& sizes) {
  const Question* question = FindQuestion(task, head);
  if (question == nullptr) {
    task->run.journal.Find("wrong-bytes", "a request at %d belongs to no call", task->index);
    return Status::Internal("no such call");
  }
  if (question->deed == Deed::kRefusedSink) return RefusedPlace(question->number);
  return std::unique_ptr<rpc::RequestSink>(std::make_unique<Sink>(task, static_cast<size_t>(sizes.total())));
}

void CheckRequest(Run* run, const Question& question, const rpc::Request& request) {
  std::string differs;
  if (request.sink != nullptr) {
    Bytes left = static_cast<const Sink*>(request.sink.get())->bytes();
    for (size_t i = 0; i < question.request.size(); ++i) {
      size_t size = question.request[i];
      if (left.size < size) break;
      bool right = Mismatch(left.Sub(0, size), PatternOf(question.number, Use::kRequest, i)) == size;
      if (!right) differs = "segment " + std::to_string(i) + " in a sink";
      left = left.From(size);
    }
    if (!left.empty()) differs = std::to_string(left.size) + " bytes too many in a sink";
  } else {
    differs = WhatDiffers(request.body, question.request, question.number, Use::kRequest, 0);
  }
  if (!differs.empty() && !run->plan.lies) {
    run->journal.Find("wrong-bytes", "the request of call %d: %s", question.number, differs.c_str());
  }
  if ((request.deadline_ns == kForeverNs) != (question.timeout_ns == kForeverNs)) {
    run->journal.Find("lost-deadline", "the deadline of call %d did not travel with it", question.number);
  }
}

// The part of the request that it keeps no longer counts.
void LetGo(Owed* owed) {
  owed->held.reset();
  if (owed->sink != nullptr) static_cast<Sink*>(owed->sink.get())->LetGo();
}

// ---- answering ----

void SendAnswer(const Debt& debt, bool well) {
  Owed* owed = debt.owed();
  const Question& question = *owed->question;
  Run& run = *debt.run;
  rpc::Reply reply = std::move(owed->reply);
  Buffers body = question.deed == Deed::kEcho ? std::move(owed->body)
                                              : run.ledger.LendAll(question.answer, question.number, Use::kAnswer);
  debt.task()->Forget(owed);
  run.journal.Say("call %d is answered%s", question.number, well ? "" : " with an error");
  if (run.meddler.Strikes(Meddle::kLargeCopy)) {
    std::string from(kCopyBytesMax, 'x'), to = from;
    CopyBytes(Bytes(to.data(), to.size()), from);
  }
  if (!well) {
    reply.Send(PlannedFailure(question.number));
    return;
  }
  if (!body.empty() && !body.back().empty() && run.meddler.Strikes(Meddle::kFlipAnswer))
    body.back().bytes().data[0] ^= 1;
  std::string head = PatternText(question.answer_head_bytes, PatternOf(question.number, Use::kAnswerHead, 0));
  reply.Send(Status::Ok(), head, std::move(body));
}

void SendNextPart(const Debt& debt);

void OnPartDone(const Debt& debt, const Status& sent) {
  --debt.run->part_dones_due;
  Owed* owed = debt.owed();
  if (owed == nullptr || !owed->question->steady) return;
  if (sent.ok()) {
    SendNextPart(debt);
  } else {
    SendAnswer(debt, false);
  }
}

void SendNextPart(const Debt& debt) {
  Owed* owed = debt.owed();
  const Question& question = *owed->question;
  Run& run = *debt.run;
  LetGo(owed);
  bool more = true;
  while (more) {
    size_t index = owed->next_part++;
    if (index >= question.parts.size()) {
      SendAnswer(debt, true);
      return;
    }
    std::string head = PatternText(8, PatternOf(question.number, Use::kPartHead, index));
    Buffers part = run.ledger.LendAll(question.parts[index], question.number, Use::kPart, index << 16);
    bool told = question.steady || index % 2 == 0;
    more = !question.steady;
    if (told) ++run.part_dones_due;
    owed->reply.SendPart(head, std::move(part), told ? Done([debt](Status sent) { OnPartDone(debt, sent); }) : Done());
  }
}

void Answer(const Debt& debt) {
  Owed* owed = debt.owed();
  if (owed == nullptr) return;  // it was unwanted
  if (owed->question->deed == Deed::kStream) {
    SendNextPart(debt);
  } else {
    SendAnswer(debt, owed->question->deed != Deed::kFail);
  }
}

// As another thread of the task would: outside of its home.
void AnswerElsewhere(const Debt& debt, int64_t delay_ns) {
  debt.run->After(delay_ns, [debt] {
    Task* task = debt.task();
    if (task == nullptr) return;
    if (task->paused) {
      AnswerElsewhere(debt, 5 * kMillisecondNs);
    } else {
      Answer(debt);
    }
  });
}

void AnswerAtHome(const Debt& debt, int64_t delay_ns) {
  Owed* owed = debt.owed();
  owed->timer = std::make_unique<reactor::Timer>([debt] {
    Debt still = debt;  // the answer destroys the timer
    Answer(still);
  });
  debt.task()->home->Arm(owed->timer.get(), delay_ns);
}

void Forward(const Debt& debt, int inner) {
  Run* run = debt.run;
  if (run->record(inner).started) {
    SendAnswer(debt, false);
    return;
  }
  run->record(inner).then = [debt](const Status& status) {
    if (debt.owed() != nullptr) SendAnswer(debt, status.ok());
  };
  Ask(run, debt.task(), inner);
}

void OnUnwanted(const Debt& debt) {
  Owed* owed = debt.owed();
  if (owed == nullptr) return;
  debt.run->journal.Say("call %d is unwanted", debt.number);
  LetGo(owed);
  if (owed->question->deed == Deed::kWaitUnwanted) SendAnswer(debt, false);
}

void Handle(Task* task, rpc::Request request, rpc::Reply reply) {
  Run& run = task->run;
  const Question* question = FindQuestion(task, request.head);
  if (question == nullptr) {
    run.journal.Find("wrong-bytes", "a request at %d belongs to no call", task->index);
    return;
  }
  int number = question->number;
  Record& record = run.record(number);
  run.journal.Say("call %d is handled at %d", number, task->index);
  if (run.meddler.Strikes(Meddle::kHandleTwice)) ++record.handled;
  if (++record.handled > 1) run.journal.Find("handled-twice", "call %d", number);
  record.handled_ns = run.now_ns();
  CheckRequest(&run, *question, request);
  if (run.meddler.Strikes(Meddle::kOverBudget)) task->Hold(uint64_t{1} << 50);
  if (question->deed == Deed::kDrop) return;
  Debt debt{&run, task->index, task->incarnation, number};
  uint64_t bytes = TotalBytes(request.body);
  Owed* owed = task->Owe(*question, std::move(request), std::move(reply));
  owed->held = std::make_unique<Held>(task, bytes);
  owed->reply.OnUnwanted([debt](rpc::Unwanted) { OnUnwanted(debt); });
  bool endless = question->timeout_ns == kForeverNs && question->cancel_after_ns < 0 && question->cancel_at_part < 0;
  if (endless && run.meddler.Strikes(Meddle::kHang)) return;
  if (question->deed == Deed::kForward) {
    Forward(debt, question->inner);
  } else if (question->deed == Deed::kWaitUnwanted) {
    AnswerAtHome(debt, 2 * question->delay_ns);
  } else if (question->when == When::kAtOnce) {
    Answer(debt);
  } else if (question->when == When::kLaterAtHome) {
    AnswerAtHome(debt, question->delay_ns);
  } else {
    AnswerElsewhere(debt, question->delay_ns);
  }
}

rpc::Method MakeMethod(Task* task, uint16_t number, const char* name) {
  rpc::Method method;
  method.number = number;
  method.name = name;
  method.handle = [task](rpc::Request request, rpc::Reply reply) {
    Handle(task, std::move(request), std::move(reply));
  };
  return method;
}

}  // namespace

uint16_t MethodOf(const Question& question) {
  if (question.deed == Deed::kNoMethod) return kNoMethod;
  return question.sink ? kSinkMethod : kPlainMethod;
}

std::string RequestHead(const Question& question) {
  auto number = static_cast<uint32_t>(question.number);
  std::string head(reinterpret_cast<const char*>(&number), sizeof(number));
  return head + PatternText(question.head_bytes, PatternOf(question.number, Use::kRequestHead, 0));
}

std::vector<rpc::Method> MakeMethods(Task* task) {
  std::vector<rpc::Method> methods;
  methods.push_back(MakeMethod(task, kPlainMethod, "plain"));
  methods.push_back(MakeMethod(task, kSinkMethod, "sink"));
  methods.back().make_sink = [task](ConstBytes head, const rpc::SegmentSizes& sizes) {
    return MakeSink(task, head, sizes);
  };
  methods.push_back(MakeMethod(task, kProbeMethod, "probe"));
  methods.back().handle = [](rpc::Request request, rpc::Reply reply) { reply.Send(Status::Ok(), request.head); };
  return methods;
}

}  // namespace fusewire::simulation
