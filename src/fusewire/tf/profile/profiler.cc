// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/profile/profiler.h"

#include <algorithm>
#include <map>
#include <queue>
#include <string>
#include <utility>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/platform/env_time.h>
#include <tsl/profiler/lib/profiler_factory.h>
#include "fusewire/base/mutex.h"

namespace fusewire::tf {
namespace {

using tensorflow::profiler::XEvent;
using tensorflow::profiler::XLine;
using tensorflow::profiler::XPlane;

constexpr size_t kLanesMax = 64;  // of one peer and kind
constexpr int64_t kPsPerNs = 1000;

int64_t ProfileClockNs() { return static_cast<int64_t>(tensorflow::EnvTime::NowNanos()); }

// All that ends while a profile is taken.
class WireListener final : public observe::EventListener {
 public:
  bool Start(size_t events_max) {
    MutexLock lock(mutex_);
    if (is_on_) return false;
    is_on_ = true;
    events_max_ = events_max;
    record_ = WireRecord();
    record_.begun_ns = ProfileClockNs();
    ahead_ns_ = record_.begun_ns - Clock::Real()->NowNs();
    observe::event_listener.store(this, std::memory_order_release);
    return true;
  }

  WireRecord Take() {
    MutexLock lock(mutex_);
    if (!is_on_) return WireRecord();
    observe::event_listener.store(nullptr, std::memory_order_release);
    is_on_ = false;
    record_.ended_ns = ProfileClockNs();
    return std::exchange(record_, WireRecord());
  }

  void OnEnd(observe::EventFacts facts) override {
    MutexLock lock(mutex_);
    if (!is_on_) return;  // it comes too late
    if (record_.events.size() >= events_max_) {
      ++record_.left_out;
      return;
    }
    for (int64_t* time_ns : {&facts.begun_ns, &facts.arrived_ns, &facts.ended_ns}) {
      const int64_t here_ns = *time_ns + ahead_ns_;
      *time_ns = *time_ns != 0 && here_ns >= record_.begun_ns ? here_ns : 0;
    }
    record_.events.push_back(std::move(facts));
  }

 private:
  Mutex mutex_;
  bool is_on_ FUSEWIRE_GUARDED_BY(mutex_) = false;
  size_t events_max_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
  int64_t ahead_ns_ FUSEWIRE_GUARDED_BY(mutex_) = 0;  // the profiler's clock is, of that of events
  WireRecord record_ FUSEWIRE_GUARDED_BY(mutex_);
};

// Until the process ends: events may come at any time.
WireListener& TheListener() {
  static auto* listener = new WireListener;
  return *listener;
}

const char* WordsOf(observe::Kind kind) {
  switch (kind) {
    case observe::Kind::kReceive: return "received from ";
    case observe::Kind::kProvide: return "sent to ";
    case observe::Kind::kRunOut: return "run by ";
    case observe::Kind::kRunIn: return "run for ";
    case observe::Kind::kCollective: return "collectives of ";
    default: return "";  // not in a profile
  }
}

// The names of events and stats, each stored once.
class Names {
 public:
  explicit Names(XPlane* plane) : plane_(plane) {}

  int64_t Event(const std::string& name) { return Number(name, &events_, plane_->mutable_event_metadata()); }

  template <class Message>
  tensorflow::profiler::XStat* Stat(const std::string& name, Message* of) {
    auto* stat = of->add_stats();
    stat->set_metadata_id(Number(name, &stats_, plane_->mutable_stat_metadata()));
    return stat;
  }

 private:
  template <class Metadata>
  static int64_t Number(const std::string& name, std::map<std::string, int64_t>* known, Metadata* all) {
    auto [at, is_new] = known->emplace(name, static_cast<int64_t>(known->size()) + 1);
    if (is_new) {
      auto& metadata = (*all)[at->second];
      metadata.set_id(at->second);
      metadata.set_name(name);
    }
    return at->second;
  }

  XPlane* const plane_;
  std::map<std::string, int64_t> events_, stats_;
};

// The times of an event, limited to those of the profile.
void Clip(const WireRecord& record, observe::EventFacts* event) {
  event->ended_ns = std::clamp(event->ended_ns, record.begun_ns, record.ended_ns);
  event->begun_ns = std::clamp(event->begun_ns, record.begun_ns, event->ended_ns);
  if (event->arrived_ns == 0) event->arrived_ns = event->ended_ns;  // it has no content, or only its end was seen
  event->arrived_ns = std::clamp(event->arrived_ns, event->begun_ns, event->ended_ns);
}

// Viewers draw events of one line inside each other or side by side: those that overlap otherwise need several lines.
class Lanes {
 public:
  size_t LaneOf(const observe::EventFacts& event) {
    for (size_t i = 0; i < lanes_.size(); ++i) {
      std::vector<int64_t>& ends = lanes_[i];
      while (!ends.empty() && ends.back() <= event.begun_ns) ends.pop_back();
      if (!ends.empty() && ends.back() < event.ended_ns && i + 1 < kLanesMax) continue;
      ends.push_back(event.ended_ns);
      return i;
    }
    lanes_.push_back({event.ended_ns});
    return lanes_.size() - 1;
  }

 private:
  std::vector<std::vector<int64_t>> lanes_;  // the ends of each lane's events that enclose the next, inmost last
};

void WriteEvent(const observe::EventFacts& event, size_t queue, const WireRecord& record, Names* names, XLine* line) {
  XEvent* to = line->add_events();
  to->set_metadata_id(names->Event(event.name));
  to->set_offset_ps((event.begun_ns - record.begun_ns) * kPsPerNs);
  to->set_duration_ps((event.ended_ns - event.begun_ns) * kPsPerNs);
  const bool is_tensor = event.kind == observe::Kind::kReceive || event.kind == observe::Kind::kProvide;
  names->Stat("peer", to)->set_str_value(event.peer);
  names->Stat(is_tensor ? "tensor" : "operation", to)->set_str_value(event.name);
  names->Stat("step", to)->set_int64_value(event.step);
  names->Stat("queue", to)->set_uint64_value(queue);
  names->Stat("wait_us", to)->set_double_value(static_cast<double>(event.arrived_ns - event.begun_ns) / 1e3);
  names->Stat("land_us", to)->set_double_value(static_cast<double>(event.ended_ns - event.arrived_ns) / 1e3);
  names->Stat("bytes_in", to)->set_uint64_value(event.bytes_in);
  names->Stat("bytes_out", to)->set_uint64_value(event.bytes_out);
  if (!event.error.empty()) names->Stat("error", to)->set_str_value(event.error);
}

// All events of one kind and peer, in the order of their begins.
void WriteLines(const std::string& title, const std::vector<observe::EventFacts>& events, const WireRecord& record,
                Names* names, XPlane* plane) {
  Lanes lanes;
  std::vector<XLine*> lines;
  std::priority_queue<int64_t, std::vector<int64_t>, std::greater<>> under_way;  // their ends
  for (const observe::EventFacts& event : events) {
    while (!under_way.empty() && under_way.top() <= event.begun_ns) under_way.pop();
    under_way.push(event.ended_ns);
    const size_t lane = lanes.LaneOf(event);
    if (lane == lines.size()) {
      XLine* line = plane->add_lines();
      line->set_id(plane->lines_size());
      line->set_name(lane == 0 ? title : absl::StrCat(title, " (", lane + 1, ")"));
      line->set_timestamp_ns(record.begun_ns);
      line->set_duration_ps((record.ended_ns - record.begun_ns) * kPsPerNs);
      lines.push_back(line);
    }
    WriteEvent(event, under_way.size(), record, names, lines[lane]);
  }
}

}  // namespace

bool StartWireRecord(size_t events_max) { return TheListener().Start(events_max); }
WireRecord TakeWireRecord() { return TheListener().Take(); }

void WritePlane(WireRecord record, XPlane* plane) {
  plane->set_name(kWirePlane);
  Names names(plane);
  for (observe::EventFacts& event : record.events) Clip(record, &event);
  std::stable_sort(record.events.begin(), record.events.end(),
                   [](const observe::EventFacts& a, const observe::EventFacts& b) {
                     return a.begun_ns != b.begun_ns ? a.begun_ns < b.begun_ns : a.ended_ns > b.ended_ns;
                   });
  std::map<std::string, std::vector<observe::EventFacts>> by_title;
  for (observe::EventFacts& event : record.events) {
    const std::string title = WordsOf(event.kind) + event.peer;
    by_title[title].push_back(std::move(event));
  }
  for (const auto& [title, events] : by_title) WriteLines(title, events, record, &names, plane);
  names.Stat("left_out", plane)->set_uint64_value(record.left_out);
}

std::unique_ptr<tsl::profiler::ProfilerInterface> WireProfiler::Make(const tensorflow::ProfileOptions& options) {
  if (options.host_tracer_level() == 0) return nullptr;
  return std::make_unique<WireProfiler>();
}

// A profile that TensorFlow gives up ends here.
WireProfiler::~WireProfiler() { (void)Stop(); }

TfStatus WireProfiler::Start() {
  if (!StartWireRecord())
    return absl::UnavailableError(
        "fusewire: another profile is being taken in this process; next: wait for its end; see: "
        "fusewire explain profiling#profiling");
  is_started_ = true;
  return TfStatus();
}

TfStatus WireProfiler::Stop() {
  if (std::exchange(is_started_, false)) record_ = TakeWireRecord();
  return TfStatus();
}

TfStatus WireProfiler::CollectData(tensorflow::profiler::XSpace* space) {
  WireRecord record = std::exchange(record_, WireRecord());
  if (record.left_out > 0) {
    space->add_warnings(absl::StrCat("fusewire: the profile has the first ", record.events.size(),
                                     " transfers, and lacks the ", record.left_out,
                                     " after them: take a shorter profile"));
  }
  if (!record.events.empty()) WritePlane(std::move(record), space->add_planes());
  return TfStatus();
}

void RegisterWireProfiler() { tsl::profiler::RegisterProfilerFactory(WireProfiler::Make); }

}  // namespace fusewire::tf
