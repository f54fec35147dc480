// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// input := op[...]      op := what:u8 argument:u8[...] A group of three: two members are honest. The third is an
// endpoint that may behave like an honest rank for a while, and otherwise sends arbitrary messages, with tags,
// fingerprints and sizes that it knows or has received. It may leave, come back, connect twice, and greet as an honest
// member. For every input: each operation ends once, soon after its deadline at the latest, nothing is written outside
// the arrays, and an error at an honest member names the third. With a key, this holds until a call
// has succeeded at one of the two and failed at the other: then they may go on with different calls.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/base/random.h"
#include "fusewire/collective/group/control_message.h"
#include "fusewire/collective/group/group_core.h"
#include "fusewire/collective/run/fingerprint.h"
#include "fusewire/p2p/p2p.h"
#include "fusewire/reactor/reactor.h"
#include "fusewire/transport/transport.h"
#include "loopback/loopback.h"
#include "op_bytes.h"

namespace fusewire::collective {
namespace {

constexpr int kHonest = 2, kLiar = 2, kRanks = 3;
constexpr const char* kNames[] = {"h", "i", "z"};
constexpr const char* kGroup = "g";
constexpr size_t kOpsMax = 32, kHeardMax = 16, kLiesMax = 400;
constexpr size_t kGuardBytes = 64;
constexpr size_t kCounts[] = {0, 1, 7, 100, 1025, 3000, 9000, 40000};
constexpr uint64_t kNumbers[] = {0, 1, 2, 3, 255, uint64_t{1} << 31, uint64_t{1} << 63, UINT64_MAX};
// The state of an operation, which is lost between turns.
constexpr int64_t kTimeoutNs = 2 * kSecondNs, kGraceNs = 50 * kMillisecondNs;

constexpr uint64_t kOpMask = (uint64_t{1} << 40) - 1, kKeyedBit = uint64_t{1} << 39;
uint64_t Mix(uint64_t a, uint64_t b) { return Random(Random(a).Next() ^ b).Next(); }

uint64_t TagBase(uint32_t epoch) {
  uint64_t hash = epoch;
  for (const char* letter = kGroup; *letter != '\0'; ++letter) hash = Mix(hash, static_cast<uint8_t>(*letter));
  return uint64_t{1} << 63 | (hash >> 41) << 40;
}

// Where an operation of that fingerprint is looked for.
uint64_t TagOf(const Fingerprint& place) {
  if (place.keyed == 0) return TagBase(place.epoch) | (place.turn & (kKeyedBit - 1));
  return TagBase(place.epoch) | kKeyedBit | ((Mix(place.key, place.turn) & kOpMask) >> 1);
}

// An operation of one member, and arrays with a rim that must not be written.
struct Posted {
  Bytes Array(size_t bytes) {
    arrays.push_back(std::string(kGuardBytes + bytes + kGuardBytes, '#'));
    return Bytes(arrays.back().data() + kGuardBytes, bytes);
  }
  void Check() const {
    for (const std::string& array : arrays) {
      for (size_t i = 0; i < kGuardBytes; ++i) {
        FUSEWIRE_CHECK(array[i] == '#');
        FUSEWIRE_CHECK(array[array.size() - 1 - i] == '#');
      }
    }
  }
  std::deque<std::string> arrays;
  int member = 0;
  size_t call = 0;
  uint64_t number = 0;
  int64_t began_ns = 0;
  int ends = 0;
};

class Session {
 public:
  Session(const uint8_t* data, size_t size) : in_(data, size), world_(1, {}) {
    for (int member = 0; member < kRanks; ++member) homes_[member] = world_.AddHost(kNames[member]);
    for (int member = 0; member < kRanks; ++member) Join(member);
    world_.RunFor(10 * kMillisecondNs);
  }

  void Run() {
    while (!in_.empty()) Step();
    world_.RunFor(kTimeoutNs + kGraceNs);
    for (const Posted& posted : posted_) FUSEWIRE_CHECK(posted.ends == 1 || posted.member == kLiar);
    std::set<uint64_t> parted_keys;
    for (const Call& call : calls_) {
      if (call.words.empty() || parted_keys.count(call.key) != 0) continue;
      if (!call.is_named) fprintf(stderr, "nobody is named:\n%s", call.words.c_str());
      FUSEWIRE_CHECK(call.is_named);
      if (call.key != 0 && call.has_succeeded) parted_keys.insert(call.key);
    }
    Vanish();
    for (const auto& endpoint : doubles_) endpoint->Close();
    for (int member = 0; member < kHonest; ++member) {
      homes_[member]->Run([this, member] { cores_[member]->Close(); });
      endpoints_[member]->Close();
    }
    world_.RunFor(6 * kSecondNs);
    for (const Posted& posted : posted_) posted.Check();
    for (int member = 0; member < kHonest; ++member) {
      FUSEWIRE_CHECK(cores_[member]->under_way().empty());
      cores_[member].reset();
      endpoints_[member].reset();
    }
    double_lies_.clear();
    doubles_.clear();
  }

 private:
  // The messages of one that honest members have received.
  struct Call {
    uint64_t key = 0;
    bool has_succeeded = false, is_named = false;
    std::string words;
  };
  struct Heard {
    Fingerprint print;
    uint64_t bytes;
  };
  struct Lie {
    std::string head, body;
    std::unique_ptr<p2p::Op> op;
  };

  std::unique_ptr<p2p::Endpoint> MakeEndpoint(const char* name, const char* host, reactor::Reactor* home) {
    p2p::EndpointOptions options;
    options.pipe.name = name;
    options.pipe.incarnation = ++incarnation_;
    return p2p::Endpoint::Make(std::move(options), {"", 5555}, reactor::Pool::Around(home), world_.MakeTransport(host))
        .value();
  }
  void Join(int member) {
    endpoints_[member] = MakeEndpoint(kNames[member], kNames[member], homes_[member]);
    GroupOptions options;
    options.name = kGroup;
    options.rank = member;
    options.timeout_ns = kTimeoutNs;
    for (const char* name : kNames) options.members.push_back({name, {name, 5555}});
    // Shared with the endpoint's handlers, as in a Group.
    cores_[member] = std::make_shared<GroupCore>(*endpoints_[member], std::move(options));
    homes_[member]->Run([this, member] { FUSEWIRE_CHECK(cores_[member]->Open().ok()); });
    if (member != kLiar) return;
    // Behind the group's back: what the liar's own rank has not asked for yet is received, and kept for it.
    endpoints_[member]->HandleOffers(0, UINT64_MAX, [this](const p2p::Offer& offer) {
      const Result<Fingerprint> print = DecodeFingerprint(offer.head);
      if (print.ok()) heard_.push_back({print.value(), offer.bytes});
      if (heard_.size() > kHeardMax) heard_.pop_front();
      return refuses_ ? p2p::OfferAnswer::Refuse(Status::Overloaded("no")) : p2p::OfferAnswer::Defer();
    });
    for (int other = 0; other < kHonest; ++other)
      peers_[other] = endpoints_[member]->Connect(kNames[other], {kNames[other], 5555}).value();
  }
  void Vanish() {
    if (endpoints_[kLiar] == nullptr) return;
    homes_[kLiar]->Run([this] { cores_[kLiar]->Close(); });
    endpoints_[kLiar]->Close();
    world_.RunFor(kSecondNs);
    Forget();
  }
  // No goodbye is received.
  void Die() {
    world_.KillHost(kNames[kLiar], transport::LoopbackDeath::kReset);
    if (endpoints_[kLiar] == nullptr) return;
    homes_[kLiar]->Run([this] { cores_[kLiar]->Close(); });
    endpoints_[kLiar]->Close();
    Forget();
  }
  void Forget() {
    lies_.clear();
    cores_[kLiar].reset();
    endpoints_[kLiar].reset();
  }

  void Step() {
    const uint8_t what = in_.Next();
    switch (what % 16) {
      case 0:
      case 1:
      case 2: return StartOne(what / 16);
      case 3:
      case 4:
      case 5: return LieInAMessage();
      case 6:
      case 7:
      case 8: return LieInANote();
      case 9: return Say(in_.Next() % kHonest, TagBase(0) | kOpMask, "", in_.Text(200), in_.Next());
      case 10: return ListenOnce();
      case 11: refuses_ = in_.Next() % 4 == 0; return;
      case 12: return Interfere(what / 16);
      case 13: return ComeAgain(what / 16);
      case 14: return Reach();
      default: world_.RunFor((what / 16 + 1) * 3 * kMillisecondNs);
    }
  }

  // All members call the same; unless the liar does not, or wants something else.
  void StartOne(int how) {
    if (posted_.size() >= kOpsMax * kRanks) return;
    CollectiveSpec spec;
    const uint8_t what = in_.Next();
    spec.kind = static_cast<CollectiveKind>(what % (static_cast<uint8_t>(CollectiveKind::kAllToAll) + 1));
    spec.reduction.type = Type::kU8;
    spec.root = how % kRanks;
    spec.key = how % 4 == 3 ? in_.Next() % 4 : 0;
    spec.confirm = what >= 128;
    const size_t count = in_.OneOf(kCounts);
    calls_.emplace_back().key = spec.key;
    const bool plays = how / 4 % 2 == 0;
    for (int member = 0; member < kHonest; ++member) StartAt(member, spec, count);
    if (!plays || endpoints_[kLiar] == nullptr) return;
    const uint8_t lie = in_.Next();
    if (lie % 8 == 1) spec.root = lie / 8 % kRanks;
    if (lie % 8 == 2)
      spec.kind = static_cast<CollectiveKind>(lie / 8 % (static_cast<uint8_t>(CollectiveKind::kAllToAll) + 1));
    if (lie % 8 == 3) spec.reduction.op = Op::kMax;
    StartAt(kLiar, spec, lie % 8 == 4 ? kCounts[lie / 8 % 8] : count);
  }
  void StartAt(int member, CollectiveSpec spec, size_t count) {
    GroupCore& core = *cores_[member];
    Posted& posted = posted_.emplace_back();
    posted.member = member;
    posted.call = calls_.size() - 1;
    posted.began_ns = world_.clock()->NowNs();
    const auto ranks = static_cast<size_t>(core.state().ranks.load());
    spec.root %= core.state().ranks.load();
    const bool one = spec.kind == CollectiveKind::kAllReduce || spec.kind == CollectiveKind::kReduce ||
                     spec.kind == CollectiveKind::kBroadcast;
    if (spec.kind != CollectiveKind::kBarrier) {
      spec.counts.assign(one ? 1 : ranks, count);
      const bool has_part = (spec.kind == CollectiveKind::kGather || spec.kind == CollectiveKind::kScatter) &&
                            spec.root != core.state().rank.load();
      const Bytes to = posted.Array(count * (one || has_part ? 1 : ranks));
      spec.to = Pieces(to.data, to.size);
    }
    if (spec.kind == CollectiveKind::kAllToAll) {
      spec.receives = spec.counts;
      const Bytes from = posted.Array(count * ranks);
      spec.from = Pieces(from.data, from.size);
    }
    auto operation = std::make_unique<GroupOperation>();
    operation->spec = std::move(spec);
    operation->number = posted.number = core.maker().NextNumber();
    operation->done = [this, &posted](const Status& status) { OnEnd(&posted, status); };
    homes_[member]->Run([&core, &operation] { core.Begin(std::move(operation)); });
  }
  void OnEnd(Posted* posted, const Status& status) {
    ++posted->ends;
    if (posted->member == kLiar) return;
    FUSEWIRE_CHECK(world_.clock()->NowNs() - posted->began_ns <= kTimeoutNs + kGraceNs);
    Call& call = calls_[posted->call];
    call.has_succeeded = call.has_succeeded || status.ok();
    if (status.ok() || interfered_) return;
    // If the third sends a message only to one of the two, the other one may only see that one fail, and name it.
    const std::string words = status.ToString();
    const auto says = [&words](const char* name) { return words.find(name) != std::string::npos; };
    const bool names = says("rank 2 (z)") || says("peer z ");
    const bool names_next = says("rank 0 (h)") || says("rank 1 (i)") || says("peer h ") || says("peer i ");
    call.is_named = call.is_named || names;
    call.words += words + "\n";
    if (!names && !names_next) fprintf(stderr, "nobody is named: %s\n", words.c_str());
    FUSEWIRE_CHECK(names || names_next);
  }

  // ---- its messages ----

  uint64_t Number() {
    const uint8_t what = in_.Next();
    return what < 200 ? what % 8 : kNumbers[what % 8];
  }
  // Of an operation that was heard, or of none; with one changed field, or with none.
  Fingerprint Print(size_t* bytes) {
    Fingerprint print;
    print.epoch = static_cast<uint16_t>(cores_[0]->state().epoch.load());
    const uint8_t which = in_.Next();
    if (!heard_.empty() && which < 224) {
      print = heard_[which % heard_.size()].print;
      *bytes = static_cast<size_t>(heard_[which % heard_.size()].bytes);
    }
    const uint8_t field = in_.Next() % 24;
    if (field >= 12) return print;
    const uint64_t number = Number();
    uint8_t* const small[] = {&print.kind, &print.op, &print.type, &print.algorithm, &print.keyed};
    uint64_t* const large[] = {&print.key, &print.turn, &print.amount, &print.digest};
    if (field < 5) *small[field] = static_cast<uint8_t>(number);
    if (field == 5) print.epoch = static_cast<uint16_t>(number);
    if (field == 6) print.root = static_cast<uint32_t>(number);
    if (field == 7) print.segment = static_cast<uint32_t>(number);
    if (field >= 8) *large[field - 8] = number;
    return print;
  }
  void LieInAMessage() {
    size_t bytes = in_.OneOf(kCounts);
    const Fingerprint print = Print(&bytes);
    const uint8_t how = in_.Next();
    if (how % 8 == 1) bytes = in_.OneOf(kCounts);
    if (how % 8 == 2) ++bytes;
    if (how % 8 == 3 && bytes > 0) --bytes;
    std::string head(kFingerprintBytes, '\0');
    EncodeFingerprint(print, Bytes(head.data(), head.size()));
    if (how / 8 % 8 == 1) head.clear();
    if (how / 8 % 8 == 2) head.resize(how / 64 * 20);
    const uint64_t tag = how / 8 % 8 == 3 ? TagBase(print.epoch) | Number() : TagOf(print);
    const uint8_t more = in_.Next();
    Say(how / 64 % kHonest, tag, head, std::string(bytes, '!'), how < 128 ? 0 : more);
  }
  void LieInANote() {
    ControlMessage note;
    const uint8_t what = in_.Next();
    note.verb = static_cast<ControlVerb>(what % 5 + 1);
    size_t bytes = 0;
    note.print = Print(&bytes);
    const uint8_t how = in_.Next();
    note.epoch = how % 4 == 3 ? static_cast<uint32_t>(Number()) : cores_[0]->state().epoch.load();
    note.round = how / 4 % 4 == 3 ? Number() : how / 4 % 4;
    const bool is_malformed = how / 16 % 4 == 0;
    if (SaysWhy(note.verb) != is_malformed) note.status = Status(static_cast<Code>(how % kCodeMax + 1), in_.Text(20));
    if (how / 16 % 4 == 2 && !note.status.ok()) note.status = note.status.Peer("rank 1 (i)");
    note.seats.assign(how >= 192 ? static_cast<size_t>(Number() % 5000) : kRanks, false);
    const uint8_t seats = in_.Next();
    for (size_t i = 0; i < note.seats.size(); ++i) note.seats[i] = (seats >> i % 8 & 1) != 0;
    const uint8_t more = in_.Next();
    Say(what / 5 % kHonest, TagBase(0) | kOpMask, "", EncodeControl(note), what < 128 ? 0 : more);
  }
  void Say(int to, uint64_t tag, const std::string& head, const std::string& body, int more) {
    if (endpoints_[kLiar] == nullptr) return;
    for (int i = 0; i <= more / 16; ++i) Say(&lies_, endpoints_[kLiar].get(), peers_[to], tag, head, body);
  }
  static void Say(std::deque<Lie>* lies, p2p::Endpoint* from, p2p::Peer* to, uint64_t tag, const std::string& head,
                  const std::string& body) {
    if (lies->size() >= kLiesMax) return;
    Lie& lie = lies->emplace_back();
    lie.head = head;
    lie.body = body;
    auto op = std::make_unique<p2p::SendOp>(*from, *to, tag, ConstBytes(lie.body));
    op->head = ConstBytes(lie.head);
    Post(&lie, std::move(op));
  }
  static void Post(Lie* lie, std::unique_ptr<p2p::Op> op) {
    lie->op = std::move(op);
    lie->op->timeout_ns = kSecondNs;
    lie->op->Post();
  }
  // Takes what an honest one has sent for it.
  void ListenOnce() {
    if (endpoints_[kLiar] == nullptr || lies_.size() >= kLiesMax) return;
    size_t bytes = 0;
    const uint64_t tag = TagOf(Print(&bytes));
    Lie& lie = lies_.emplace_back();
    lie.body.resize(kCounts[7]);
    Post(&lie, std::make_unique<p2p::ReceiveOp>(*endpoints_[kLiar], peers_[in_.Next() % kHonest], tag,
                                                Bytes(lie.body.data(), lie.body.size())));
  }
  // Into memory that nobody has opened for it, and out of it.
  void Reach() {
    if (endpoints_[kLiar] == nullptr || lies_.size() >= kLiesMax) return;
    Lie& lie = lies_.emplace_back();
    lie.body.resize(in_.OneOf(kCounts));
    const p2p::RegionRef region{Number() << 32 | Number(), Number()};
    const Bytes bytes(lie.body.data(), lie.body.size());
    p2p::Endpoint& from = *endpoints_[kLiar];
    p2p::Peer& peer = *peers_[in_.Next() % kHonest];
    if (in_.Next() % 2 == 0) {
      Post(&lie, std::make_unique<p2p::PutOp>(from, peer, region, Number(), bytes));
    } else {
      Post(&lie, std::make_unique<p2p::GetOp>(from, peer, region, Number(), bytes));
    }
  }

  // ---- what else happens ----

  void ComeAgain(int how) {
    if (how < 4) {
      Vanish();
    } else if (how < 10) {
      Die();
      homes_[kLiar] = world_.RestartHost(kNames[kLiar]);
      Join(kLiar);
    } else if (doubles_.size() < 4) {
      Double(how < 13 ? kLiar : 1);
    }
  }
  // Another process of that name speaks to the first.
  void Double(int as) {
    // Without a secret, a peer that greets as an honest member takes its place: errors then name that member.
    if (as != kLiar) interfered_ = true;
    const std::string host = "double" + std::to_string(doubles_.size());
    reactor::Reactor* const home = world_.AddHost(host);
    doubles_.push_back(MakeEndpoint(kNames[as], host.c_str(), home));
    p2p::Endpoint& endpoint = *doubles_.back();
    p2p::Peer& peer = *endpoint.Connect(kNames[0], {kNames[0], 5555}).value();
    ControlMessage note;
    note.verb = static_cast<ControlVerb>(in_.Next() % 5 + 1);
    note.status = Status::Unavailable("double");
    Say(&double_lies_, &endpoint, &peer, TagBase(0) | kOpMask, "", EncodeControl(note));
    size_t bytes = 0;
    const Fingerprint print = Print(&bytes);
    std::string head(kFingerprintBytes, '\0');
    EncodeFingerprint(print, Bytes(head.data(), head.size()));
    Say(&double_lies_, &endpoint, &peer, TagOf(print), head, std::string(bytes, '!'));
  }
  void Interfere(int how) {
    interfered_ = true;
    const int member = how % kHonest;
    GroupCore& core = *cores_[member];
    const uint8_t which = in_.Next();
    homes_[member]->Run([&] {
      if (how < 4 && !posted_.empty()) core.Cancel(posted_[which % posted_.size()].number, Status::Ok());
      if (how == 4) core.Break(Status::Cancelled("aborted"), true);
      if (how == 5) core.Close();
    });
    if (how < 6) return;
    for (int other = 0; other < kRanks; ++other) {
      if (endpoints_[other] == nullptr || (other == kLiar && how % 2 == 0)) continue;
      homes_[other]->Run([this, other] { cores_[other]->BeginShrink(kTimeoutNs, [](const Status&) {}); });
    }
  }

  OpBytes in_;
  transport::LoopbackWorld world_;
  uint64_t incarnation_ = 10;
  reactor::Reactor* homes_[kRanks] = {};
  std::unique_ptr<p2p::Endpoint> endpoints_[kRanks];
  // Shared with their endpoints' handlers.
  std::shared_ptr<GroupCore> cores_[kRanks];
  std::deque<Posted> posted_;
  std::deque<Call> calls_;
  bool interfered_ = false;  // an honest one has done what fails operations

  p2p::Peer* peers_[kHonest] = {};
  std::deque<Heard> heard_;
  bool refuses_ = false;
  std::deque<std::unique_ptr<p2p::Endpoint>> doubles_;
  std::deque<Lie> lies_, double_lies_;
};

}  // namespace
}  // namespace fusewire::collective

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > 1000) return 0;
  fusewire::SetLogSink([](fusewire::LogLevel, const char*, void*) {}, nullptr);
  fusewire::collective::Session(data, size).Run();
  return 0;
}
