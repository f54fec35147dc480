// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/collective/wire.h"

namespace fusewire {
namespace collective {
namespace {

class Runner {
 public:
  Runner(const Reducer* reducer, size_t element_bytes, int ranks, const Arrays& arrays, size_t scratch_count)
      : reducer_(reducer),
        element_bytes_(element_bytes),
        ranks_(ranks),
        arrays_(arrays),
        scratch_(scratch_count * element_bytes) {}

  // A schedule that reaches beyond an array was compiled for other arrays.
  Status Check(const Schedule& schedule) const {
    for (const Stage& stage : schedule.stages) {
      for (const Step& step : stage) {
        if (step.what == Step::Do::kReduce && reducer_ == nullptr) return Status::Invalid("no reducer is given");
        bool fits = Fits(step.part);
        for (const Part& part : step.from) fits = fits && Fits(part);
        if (!fits)
          return Status::Invalid("the arrays are smaller than the schedule's").Next("give those of the Request");
      }
    }
    return Status::Ok();
  }

  Status RunStage(const Stage& stage, Courier* courier, int64_t deadline_ns) {
    in_flight_ = 0;
    // Receives first: what comes at once lands at once.
    for (const Step& step : stage) {
      if (step.what == Step::Do::kReceive)
        courier->Receive(step.peer, View(step.part), CountOne(step.peer, "receiving"));
    }
    for (const Step& step : stage) {
      if (step.what == Step::Do::kSend) courier->Send(step.peer, View(step.part), CountOne(step.peer, "sending"));
    }
    for (const Step& step : stage) {
      if (step.what == Step::Do::kReduce) Reduce(step);
      if (step.what == Step::Do::kCopy) {
        CopyPayload(View(step.part).data, View(step.from[0]).data, step.part.count * element_bytes_);
      }
    }
    while (in_flight_ > 0 && first_error_.ok()) {
      const Status status = courier->Progress(deadline_ns);
      if (!status.ok() && first_error_.ok()) first_error_ = status;
    }
    if (first_error_.ok()) return first_error_;
    courier->CancelAll(first_error_);
    FUSEWIRE_CHECK(in_flight_ == 0);
    return first_error_;
  }

 private:
  const Bytes& MemoryOf(const Part& part) const {
    return part.memory == Memory::kInput ? arrays_.input : arrays_.output;
  }
  bool Fits(const Part& part) const {
    const size_t has = (part.memory == Memory::kScratch ? scratch_.size() : MemoryOf(part).size) / element_bytes_;
    return part.at <= has && part.count <= has - part.at;
  }
  Bytes View(const Part& part) {
    uint8_t* start = part.memory == Memory::kScratch ? scratch_.data() : MemoryOf(part).data;
    return Bytes(start + part.at * element_bytes_, part.count * element_bytes_);
  }
  Done CountOne(int peer, const char* phase) {
    ++in_flight_;
    return [this, peer, phase](const Status& status) {
      --in_flight_;
      if (!status.ok() && first_error_.ok()) first_error_ = status.Peer("rank " + std::to_string(peer)).Phase(phase);
    };
  }
  void Reduce(const Step& step) {
    sources_.clear();
    for (const Part& part : step.from) sources_.push_back(View(part).data);
    ReduceCall call;
    call.to = View(step.part).data;
    call.sources = sources_.data();
    call.sources_count = sources_.size();
    call.count = step.part.count;
    call.divisor = step.last && reducer_->averages() ? static_cast<uint64_t>(ranks_) : 1;
    reducer_->Reduce(call);
  }

  const Reducer* const reducer_;
  const size_t element_bytes_;
  const int ranks_;
  const Arrays arrays_;
  std::vector<uint8_t> scratch_;
  std::vector<const void*> sources_;
  size_t in_flight_ = 0;
  Status first_error_;
};

}  // namespace

Status RunSchedule(const Schedule& schedule, const Reducer* reducer, size_t element_bytes, int ranks,
                   const Arrays& arrays, Courier* courier, int64_t deadline_ns) {
  Runner runner(reducer, element_bytes, ranks, arrays, schedule.scratch_count);
  FUSEWIRE_TRY(runner.Check(schedule));
  for (const Stage& stage : schedule.stages) FUSEWIRE_TRY(runner.RunStage(stage, courier, deadline_ns));
  return Status::Ok();
}

}  // namespace collective
}  // namespace fusewire
