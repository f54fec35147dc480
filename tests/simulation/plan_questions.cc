// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// The workload of a run.
#include <algorithm>

#include "plan.h"

namespace fusewire::simulation {
namespace {

constexpr uint64_t kSegmentBytesMax = 4 << 20;
constexpr size_t kHeadBytesMax = 3000;
constexpr uint64_t kTimeoutNsMax = 5 * kSecondNs;

class Questions {
 public:
  Questions(Random* random, Plan* plan) : random_(*random), plan_(*plan) {
    // The bytes of a run cost real time, its virtual seconds do not.
    bytes_left_ = DrawLog(random, 1 << 16, 12 << 20);
    plan_.horizon_ns = static_cast<int64_t>(DrawLog(random, 200 * kMillisecondNs, 20 * kSecondNs));
  }

  void DrawAll() {
    size_t count = DrawLog(&random_, 5, 120);
    while (plan_.questions.size() < count) {
      int number = Draw();
      At(number).start_ns = static_cast<int64_t>(random_.Below(static_cast<uint64_t>(plan_.horizon_ns)));
    }
  }

 private:
  Question& At(int number) { return plan_.questions[static_cast<size_t>(number)]; }

  int Draw(bool may_forward = true) {
    int number = static_cast<int>(plan_.questions.size());
    plan_.questions.emplace_back();
    Question question;
    question.number = number;
    DrawEnds(&question);
    DrawRequest(&question);
    DrawDeed(&question, may_forward);
    DrawCaller(&question);
    if (random_.Chance(0.1)) {
      question.next = Draw();
      At(question.next).asked_by_other = true;
    }
    int from = question.from;
    At(number) = std::move(question);
    SetFrom(number, from);
    return number;
  }

  // A call from inside another call comes from a given member; no member calls itself.
  void SetFrom(int number, int from) {
    Question& question = At(number);
    question.from = from;
    if (question.to == from) question.to = (from + 1) % static_cast<int>(plan_.members.size());
    if (question.inner >= 0) SetFrom(question.inner, question.to);
    if (question.next >= 0) SetFrom(question.next, from);
  }

  void DrawEnds(Question* question) {
    uint64_t members = plan_.members.size();
    question->from = static_cast<int>(random_.Below(members));
    question->to =
        static_cast<int>((static_cast<uint64_t>(question->from) + random_.Between(1, members - 1)) % members);
    question->lane = random_.Chance(0.1) ? 1 : 0;
  }

  size_t DrawSize() {
    auto size = static_cast<size_t>(DrawLog(&random_, 0, std::min<uint64_t>(kSegmentBytesMax, bytes_left_ + 1)));
    bytes_left_ -= std::min<uint64_t>(bytes_left_, size);
    return size;
  }

  std::vector<size_t> DrawSegments() {
    double kind = random_.Fraction();
    size_t count = kind < 0.3   ? 0
                   : kind < 0.7 ? 1
                   : kind < 0.9 ? random_.Between(2, 6)
                                : DrawLog(&random_, 10, kind < 0.99 ? 100 : 1500);
    std::vector<size_t> sizes;
    for (size_t i = 0; i < count; ++i) sizes.push_back(count > 8 ? DrawLog(&random_, 0, 2000) : DrawSize());
    return sizes;
  }

  void DrawRequest(Question* question) {
    question->head_bytes = random_.Chance(0.1) ? DrawLog(&random_, 1, kHeadBytesMax) : random_.Below(60);
    question->request = DrawSegments();
    question->sink = random_.Chance(0.4);
  }

  void DrawDeed(Question* question, bool may_forward) {
    double deed = random_.Fraction();
    if (deed < 0.50)
      question->deed = Deed::kAnswer;
    else if (deed < 0.62)
      question->deed = Deed::kEcho;
    else if (deed < 0.76)
      question->deed = Deed::kStream;
    else if (deed < 0.82)
      question->deed = may_forward ? Deed::kForward : Deed::kAnswer;
    else if (deed < 0.88)
      question->deed = Deed::kFail;
    else if (deed < 0.91)
      question->deed = Deed::kDrop;
    else if (deed < 0.93)
      question->deed = Deed::kNoMethod;
    else if (deed < 0.96)
      question->deed = Deed::kRefusedSink;
    else
      question->deed = Deed::kWaitUnwanted;
    if (question->deed == Deed::kEcho) question->sink = false;
    if (question->deed == Deed::kRefusedSink) {
      question->sink = true;
      if (question->request.empty()) question->request.push_back(DrawSize());
    }
    double when = random_.Fraction();
    question->when = when < 0.5 ? When::kAtOnce : when < 0.75 ? When::kLaterAtHome : When::kLaterElsewhere;
    question->delay_ns = static_cast<int64_t>(DrawLog(&random_, 1, kSecondNs));
    question->answer_head_bytes = random_.Chance(0.1) ? DrawLog(&random_, 1, kHeadBytesMax) : random_.Below(60);
    question->answer = question->deed == Deed::kEcho ? question->request : DrawSegments();
    if (question->deed == Deed::kStream) {
      question->steady = random_.Chance(0.6);
      for (size_t parts = random_.Between(0, 12); parts > 0; --parts) question->parts.push_back(DrawSegments());
    }
    if (question->deed == Deed::kForward) DrawForward(question);
  }

  void DrawForward(Question* question) {
    question->inner = Draw(false);
    Question& inner = At(question->inner);
    inner.asked_by_other = true;
    // Handlers that wait for each other in a ring would wait for ever, as in any system.
    inner.timeout_ns = static_cast<int64_t>(DrawLog(&random_, kMillisecondNs, kSecondNs));
    question->when = When::kAtOnce;
  }

  void DrawCaller(Question* question) {
    double hurry = random_.Fraction();
    uint64_t timeout_ns_min = hurry < 0.05 ? 0 : hurry < 0.15 ? kMicrosecondNs : 20 * kMillisecondNs;
    if (hurry < 0.5) question->timeout_ns = static_cast<int64_t>(DrawLog(&random_, timeout_ns_min, kTimeoutNsMax));
    if (random_.Chance(0.1)) {
      question->cancel_after_ns = static_cast<int64_t>(DrawLog(&random_, 0, kSecondNs));
    }
    if (!question->parts.empty() && random_.Chance(0.15)) {
      question->cancel_at_part = static_cast<int>(random_.Below(question->parts.size()));
    }
    double place = random_.Fraction();
    question->place = place < 0.4    ? Place::kDefault
                      : place < 0.85 ? Place::kOwn
                      : place < 0.93 ? Place::kDiscard
                      : place < 0.97 ? Place::kRefuse
                                     : Place::kWrongSize;
    question->free_landing = random_.Chance(0.5);
  }

  Random& random_;
  Plan& plan_;
  uint64_t bytes_left_;
};

}  // namespace

void DrawQuestions(Random* random, Plan* plan) { Questions(random, plan).DrawAll(); }

}  // namespace fusewire::simulation
