// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// Endpoints in virtual time: they send, receive, put, get and cancel at random while connections are cut and endpoints
// die and come back. A seed decides everything. Watched: every operation ends exactly once and in time; what arrived is
// what was sent, once, in the order of posting; memory is not touched after an end, nor beside a landing.
//   p2p_simulation SEED COUNT        prints the seed of whatever it finds
//   p2p_simulation SEED COUNT WIRE   the same in real time over tcp, shm or ucx, where endpoints only come back;
//                                    a seed decides what is asked, not what happens. 77: this machine lacks the wire
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/base/random.h"
#include "fusewire/p2p/p2p.h"
#include "p2p_place.h"

namespace fusewire::p2p {
namespace {

constexpr size_t kGuard = 32;
constexpr uint64_t kTags = 3;
constexpr size_t kSizes[] = {0, 1, 200, 2048, 5000, 20000, 32769, 400000};
constexpr int64_t kSlackNs = 3 * kSecondNs;  // beyond a deadline, for what waits until the network lets go

std::string PatternOf(uint64_t number, size_t size) {
  std::string text(size, '\0');
  Random random(number);
  for (size_t i = 0; i < size; ++i) text[i] = static_cast<char>(random.Next());
  return text;
}

struct Track {
  enum class Kind { kSend, kReceive, kPut, kGet };
  Kind kind = Kind::kSend;
  std::string owner, with;  // with: empty for anybody
  uint64_t tag = 0;
  uint64_t number = 0;       // of a send
  std::string head, memory;  // with a guard on both sides
  std::unique_ptr<Op> op;
  int64_t posted_ns = 0, limit_ns = 0;
  std::atomic<int> ends{0};  // counted at the owner's home, when all below is written
  Status status;
  std::string at_end;  // the memory then
  uint64_t got = 0;    // of a receive: which send
};

class Run {
 public:
  Run(uint64_t seed, std::unique_ptr<Place> place) : seed_(seed), random_(seed), place_(std::move(place)) {
    names_ = {"a", "b", "c"};
    for (const std::string& name : names_) Open(name);
  }

  void Go() {
    int steps = static_cast<int>(random_.Between(50, 250));
    bool stormy = random_.Chance(0.6);
    for (int i = 0; i < steps; ++i) {
      Step();
      if (stormy && random_.Chance(0.03)) place_->Cut(Name(), Name());
      if (stormy && random_.Chance(0.01)) Restart(Name());
      if (random_.Chance(0.5)) place_->Run(static_cast<int64_t>(random_.Below(5 * kMillisecondNs)));
    }
    Expect(place_->RunUntil([this] { return AllEnded(); }, 100 * kSecondNs), "an operation does not end");
    place_->Settle();
    for (const std::string& name : names_) Close(name);
    Judge();
  }

 private:
  struct Task {
    std::unique_ptr<Endpoint> endpoint;
    std::unique_ptr<Region> region;
    std::string memory = std::string(500000, '.');
    int life = 0;
  };

  void Expect(bool good, const char* what) {
    if (good) return;
    std::fprintf(stderr, "seed %llu: %s\n", static_cast<unsigned long long>(seed_), what);
    std::_Exit(1);  // other threads are still at it
  }
  const std::string& Name() { return names_[random_.Below(names_.size())]; }

  void Open(const std::string& name) {
    Task& task = tasks_[name];
    ++task.life;
    EndpointOptions options;
    options.pipe.name = name;
    options.pipe.incarnation = seed_ * 1000 + static_cast<uint64_t>(task.life) * 10 + static_cast<uint64_t>(name[0]);
    Random random(seed_ ^ 5);
    if (random.Chance(0.5)) options.limits.unexpected_bytes_max = 12000;
    if (random.Chance(0.5)) options.limits.offers_max = 3;
    options.limits.timeout_ns = place_->timeout_ns();
    options.limits.patience_ns = place_->patience_ns();
    task.endpoint = place_->Open(std::move(options));
    Bytes memory(task.memory.data(), task.memory.size());
    task.region = Region::Open(*task.endpoint, Buffer::Wrap(memory, nullptr, nullptr)).value();
  }
  void Close(const std::string& name) {
    Task& task = tasks_[name];
    task.endpoint->Close();
    place_->Settle();
    Free(name);
  }
  void Free(const std::string& name) {
    for (Track& track : tracks_) {
      if (track.owner != name) continue;
      Expect(track.ends > 0 || track.op == nullptr, "an endpoint was closed before its operations had ended");
      track.op.reset();
    }
    tasks_[name].region.reset();
    tasks_[name].endpoint.reset();
  }
  void Restart(const std::string& name) {
    place_->Kill(name, !random_.Chance(0.5));
    died_.insert(name);
    tasks_[name].endpoint->Close();
    // Nothing runs on it any more: what it leaves is taken down as its process would be.
    DropOpsOf(name);
    Open(name);
  }
  void DropOpsOf(const std::string& name) {
    Task& task = tasks_[name];
    for (Track& track : tracks_) {
      if (track.owner == name && track.ends == 0) orphans_.push_back(&track);
    }
    task.region.reset();
    task.endpoint.reset();  // its pipes let go, and all ends come
    for (Track* track : orphans_) Expect(track->ends == 1, "an operation outlives its endpoint");
    orphans_.clear();
    for (Track& track : tracks_) {
      if (track.owner == name) track.op.reset();
    }
  }

  void Step() {
    if (random_.Chance(0.1) && !tracks_.empty()) {
      Track& any = tracks_[random_.Below(tracks_.size())];
      if (any.op != nullptr && any.ends == 0) any.op->Cancel();
      return;
    }
    Track& track = tracks_.emplace_back();
    track.owner = Name();
    do {
      track.with = Name();
    } while (track.with == track.owner);
    Endpoint& endpoint = *tasks_[track.owner].endpoint;
    Peer* peer = endpoint.Connect(track.with, place_->AddressOf(track.with)).value();
    track.tag = random_.Below(kTags);
    size_t size = kSizes[random_.Below(std::size(kSizes))];
    uint64_t what = random_.Below(10);
    RegionRef ref{tasks_[track.with].region->ref()};
    if (what < 4) {
      MakeSend(&track, endpoint, *peer, size);
    } else if (what < 8) {
      track.kind = Track::Kind::kReceive;
      bool any = random_.Chance(0.2);
      if (any) track.with.clear();
      size = random_.Chance(0.1) ? size : 400000;
      Bytes landing = Memory(&track, std::string(size, '#'));
      track.op = std::make_unique<ReceiveOp>(endpoint, any ? nullptr : peer, track.tag, landing);
    } else if (what < 9) {
      track.kind = Track::Kind::kPut;
      track.number = ++last_number_;
      ConstBytes bytes = Memory(&track, PatternOf(track.number, size));
      track.op = std::make_unique<PutOp>(endpoint, *peer, ref, random_.Below(500000 - size), bytes);
    } else {
      track.kind = Track::Kind::kGet;
      track.op = std::make_unique<GetOp>(endpoint, *peer, ref, random_.Below(500000 - size),
                                         Memory(&track, std::string(size, '#')));
    }
    Post(&track);
  }
  void MakeSend(Track* track, Endpoint& endpoint, Peer& peer, size_t size) {
    track->number = ++last_number_;
    track->head = std::to_string(track->number);
    auto send = std::make_unique<SendOp>(endpoint, peer, track->tag, Memory(track, PatternOf(track->number, size)));
    send->head = track->head;
    send->confirm = random_.Chance(0.3);
    track->op = std::move(send);
  }
  static Bytes Memory(Track* track, const std::string& text) {
    track->memory = std::string(kGuard, '|') + text + std::string(kGuard, '|');
    return Bytes(track->memory.data() + kGuard, text.size());
  }
  void Post(Track* track) {
    track->posted_ns = place_->NowNs();
    if (random_.Chance(0.3)) track->op->timeout_ns = static_cast<int64_t>(random_.Between(1, 50)) * kMillisecondNs;
    track->limit_ns = track->op->timeout_ns == 0 ? place_->timeout_ns() : track->op->timeout_ns;
    track->op->then = [this, track] { OnEnd(track); };
    track->op->Post();
  }
  void OnEnd(Track* track) {
    Expect(track->ends == 0, "an operation ended twice");
    track->status = track->op->status();
    track->at_end = track->memory;
    Expect(place_->NowNs() - track->posted_ns <= track->limit_ns + kSlackNs, "an operation ended late");
    if (track->kind == Track::Kind::kReceive && track->status.ok()) LookAt(track);
    ++track->ends;
  }
  void LookAt(Track* track) {
    const auto& receive = static_cast<const ReceiveOp&>(*track->op);
    track->got = std::strtoull(receive.head.c_str(), nullptr, 10);
    Expect(receive.source != nullptr, "a receive without a source");
    if (receive.source != nullptr && !track->with.empty()) {
      Expect(receive.source->name() == track->with, "a message of another peer");
    }
    bool same = track->memory.compare(kGuard, receive.bytes, PatternOf(track->got, receive.bytes)) == 0;
    Expect(same, "other bytes than were sent");
  }
  bool AllEnded() {
    for (const Track& track : tracks_) {
      if (track.ends == 0) return false;
    }
    return true;
  }

  void Judge() {
    std::map<uint64_t, const Track*> sends, received;
    std::map<std::string, uint64_t> last;
    std::set<std::string> withdrawn;  // ways on which a send was given up: its receive goes on to a later message
    for (const Track& track : tracks_) {
      Expect(track.ends == 1, "an operation did not end");
      Expect(track.memory == track.at_end, "memory was touched after the end");
      Expect(track.memory.compare(0, kGuard, std::string(kGuard, '|')) == 0, "memory was touched before a landing");
      Expect(track.memory.compare(track.memory.size() - kGuard, kGuard, std::string(kGuard, '|')) == 0,
             "memory was touched behind a landing");
      if (track.kind == Track::Kind::kSend) sends[track.number] = &track;
      if (track.kind == Track::Kind::kSend && !track.status.ok())
        withdrawn.insert(track.with + " " + track.owner + " " + std::to_string(track.tag));
      if (!track.status.ok()) {
        Expect(!track.status.cause().empty() && !track.status.phase().empty(), "an error without words");
      }
    }
    for (const Track& track : tracks_) {
      if (track.kind != Track::Kind::kReceive || !track.status.ok()) continue;
      auto sent = sends.find(track.got);
      Expect(sent != sends.end(), "a message that nobody sent");
      Expect(sent->second->tag == track.tag, "a message with another tag");
      Expect(sent->second->with == track.owner, "a message for somebody else");
      Expect(received.emplace(track.got, &track).second, "a message that came twice");
      if (track.with.empty()) continue;
      // Among receives from one peer: the order of posting is the order of sending.
      std::string way = track.owner + " " + track.with + " " + std::to_string(track.tag);
      if (withdrawn.count(way) > 0) continue;
      ++in_order_;
      uint64_t& before = last[way];
      Expect(track.got > before, "a message that overtook another");
      before = track.got;
    }
    // A large one that ended well is somewhere.
    for (const auto& [number, send] : sends) {
      bool large = send->memory.size() - 2 * kGuard > p2p::Limits().eager_bytes_max;
      if (large && send->status.ok() && died_.count(send->with) == 0)
        Expect(received.count(number) == 1, "a message that ended well, and nobody has");
    }
    good_ = received.size();
  }

 public:
  size_t good() const { return good_; }
  size_t in_order() const { return in_order_; }
  size_t operations() const { return tracks_.size(); }

 private:
  const uint64_t seed_;
  Random random_;
  const std::unique_ptr<Place> place_;
  std::vector<std::string> names_;
  std::map<std::string, Task> tasks_;
  std::deque<Track> tracks_;
  std::vector<Track*> orphans_;
  std::set<std::string> died_;
  uint64_t last_number_ = 0;
  size_t good_ = 0, in_order_ = 0;
};

transport::LoopbackFaults FaultsOf(uint64_t seed) {
  Random random(~seed);
  transport::LoopbackFaults faults;
  faults.split = random.Chance(0.7);
  faults.late_answer_chance = random.Chance(0.5) ? 0.2 : 0;
  faults.latency_ns_max = faults.latency_ns_min + static_cast<int64_t>(random.Below(3 * kMillisecondNs));
  faults.dial_delay_ns_max = static_cast<int64_t>(random.Below(2 * kMillisecondNs));
  if (random.Chance(0.3)) faults.bytes_per_second = 20 << 20;
  return faults;
}

}  // namespace
}  // namespace fusewire::p2p

int main(int argc, char** argv) {
  uint64_t seed = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 1;
  uint64_t count = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 1;
  fusewire::SetLogSink([](fusewire::LogLevel, const char*, void*) {}, nullptr);
  fusewire::task::TransportChoice wire = fusewire::task::TransportChoice::kAuto;
  if (argc > 3) {
    FUSEWIRE_CHECK(fusewire::task::TransportChoiceOf(argv[3], &wire));
    const fusewire::Status status = fusewire::task::TryTransport(wire).status;
    if (!status.ok()) {
      std::printf("no %s here: %s\n", argv[3], status.ToString().c_str());
      return 77;
    }
  }
  size_t good = 0, in_order = 0, operations = 0;
  for (uint64_t i = 0; i < count; ++i) {
    auto place = argc > 3 ? fusewire::p2p::MakeWirePlace(wire)
                          : fusewire::p2p::MakeLoopbackPlace(seed + i, fusewire::p2p::FaultsOf(seed + i));
    fusewire::p2p::Run run(seed + i, std::move(place));
    run.Go();
    good += run.good();
    in_order += run.in_order();
    operations += run.operations();
  }
  std::printf("%llu seeds: %zu operations, %zu messages received, the order of %zu compared\n",
              static_cast<unsigned long long>(count), operations, good, in_order);
  return in_order > 0 || count < 10 ? 0 : 1;
}
