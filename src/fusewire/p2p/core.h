// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// What an endpoint does at home: the life of its operations, and of what comes from its peers.
// Home: the endpoint's reactor. Owns: the peers, the matcher, the tables of operations, regions and signals.
// Fails: each operation on its own; a peer that breaks the rules loses its pipe.
//
// core.cc: post and end. core_wire.cc: what is said and heard. core_message.cc: send and receive. core_memory.cc: put,
// get and signals.
#ifndef FUSEWIRE_P2P_CORE_H_
#define FUSEWIRE_P2P_CORE_H_

#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fusewire/base/slots.h"
#include "fusewire/p2p/endpoint.h"
#include "fusewire/p2p/lane.h"
#include "fusewire/p2p/matcher.h"
#include "fusewire/p2p/peer_link.h"

namespace fusewire {
namespace p2p {

// Up to this a payload travels in the head: one copy, no parts.
constexpr uint64_t kInlineBytes = 2048;

struct RegionState {
  Core* core = nullptr;
  Buffer memory;
  Access access = Access::kReadWrite;
  uint64_t uses = 1;  // the Region, and each answer that the network still holds
};

struct SignalState {
  uint64_t name = 0;
  std::atomic<uint64_t> value{0};
  List<Op> waiting;
};

class Core {
 public:
  Core(pipe::Shared& shared, reactor::Reactor& home, transport::Transport& transport, Limits limits, OnPeer on_peer);
  ~Core();

  // Any thread.
  reactor::Reactor& home() { return home_; }
  pipe::Shared& shared() { return shared_; }
  transport::Transport& transport() { return transport_; }
  const std::string& name() const { return shared_.options().name; }
  uint64_t incarnation() const { return shared_.options().incarnation; }
  const Limits& limits() const { return limits_; }
  uint64_t eager_bytes_max() const { return eager_bytes_max_; }

  // At home.
  void Begin(Op* op);
  void FinishMailed(Op* op);
  void FinishEnded();
  void OnDeadline(Op* op);
  void OnCancelWanted(uint64_t name);
  // Ends all operations, and leaves.
  void Close();
  // Says goodbye to every peer behind the small messages that still wait for credit, whose operations have ended; or
  // `at_once`. True: nothing is left of operations and pipes.
  bool Leave(bool at_once);
  uint32_t ops_under_way() const { return ops_.in_use() + ends_later_; }
  size_t kept() const { return matcher_.kept(); }
  Result<PeerLink*> PeerNamed(const std::string& name);
  void HandleOffers(uint64_t tag_min, uint64_t tag_max, OnOffer on_offer);
  Result<RegionRef> AddRegion(Buffer memory, Access access);
  void RemoveRegion(RegionRef ref);
  uint64_t AddSignal(SignalState* state) { return signals_.Take(state); }
  void RemoveSignal(SignalState* state);
  void AddToSignal(uint64_t name, uint64_t amount);

  // From lanes and peers.
  Result<pipe::Landing> OnHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta);
  Status OnMessage(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, ConstBytes meta);
  void Say(Lane* lane, wire::P2pVerb verb, uint64_t call, uint32_t aux, std::initializer_list<uint64_t> numbers,
           ConstBytes behind = ConstBytes());
  void OnPeerUp(PeerLink* peer, bool restarted);
  void OnPeerDown(PeerLink* peer, const Status& why);
  void OnDialFailed(PeerLink* peer, const Status& why);
  void OnKeptLost(Kept* kept);
  bool HasOpsOf(const PeerLink* peer);

 private:
  struct OfferRange {
    uint64_t tag_min, tag_max;
    OnOffer on_offer;
  };

  // ---- core.cc ----
  bool Enter(Op* op);
  void BeginWith(Op* op);
  bool Dispatch(Op* op);
  void PumpWaiting(PeerLink* peer);
  void Wait(Op* op);
  void End(Op* op, Status status);
  void Finish(Op* op);
  void EndOnceReleased(Op* op, Status status);
  void GiveUp(Op* op, const Status& why);
  void EndAllOf(PeerLink* peer, const Status& why, bool waiting_too);
  void OnPiped(uint64_t name, const Status& status);
  void Tell(PeerLink* peer, PeerEvent event, const Status& why);
  Status Words(const Op& op, const Status& status) const;
  Status OnVerb(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  void SayTaken(PeerLink* peer, uint64_t send, const Status& status);
  bool SendBody(Op* op, Lane* lane, wire::P2pVerb verb, uint64_t call, uint32_t aux,
                std::initializer_list<uint64_t> numbers, ConstBytes head, const std::vector<ConstBytes>& parts,
                bool express);
  ConstBytes Scratch(wire::P2pVerb verb, std::initializer_list<uint64_t> numbers, ConstBytes one,
                     const std::vector<ConstBytes>& parts);
  Op* FindOp(uint64_t name, Op::Kind kind, const PeerLink& peer);
  static void MakeLanding(Op* op, const std::vector<Bytes>& parts, uint64_t bytes);
  Status OnTaken(PeerLink& peer, const wire::P2pMessage& message);
  Result<pipe::Landing> LandInto(Lane& lane, const wire::FrameHeader& header, Op* op);
  Result<pipe::Landing> LandNowhere(Lane& lane, const wire::FrameHeader& header, Status why);

  // ---- core_message.cc ----
  bool DispatchSend(SendOp* op);
  void SendData(SendOp* op, uint64_t receive);
  void BeginReceive(ReceiveOp* op);
  void PostReceive(ReceiveOp* op);
  void SayAhead(ReceiveOp* op);
  void TakeKept(ReceiveOp* op, Kept* kept);
  bool Claim(ReceiveOp* op, PeerLink* peer, uint64_t bytes, ConstBytes head);
  void EndReceive(ReceiveOp* op, PeerLink* peer, uint64_t send, bool confirm, const Status& status);
  void Pull(ReceiveOp* op, PeerLink* peer, uint64_t send, uint32_t aux);
  Kept* Keep(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, uint64_t cost);
  void Forget(Kept* kept);
  void Owe(PeerLink* peer, uint64_t cost);
  ReceiveOp* FindReceiveFor(PeerLink& peer, uint64_t tag, uint64_t send, uint64_t bytes, ConstBytes head,
                            Status* refusal);
  Result<pipe::Landing> OnEagerHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                      const wire::P2pMessage& message);
  Status CheckEager(PeerLink& peer, const wire::P2pMessage& message, uint64_t bytes, uint64_t* cost);
  Status OnEager(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Status OnEagerLanded(Arriving* arriving, PeerLink& peer, const wire::P2pMessage& message, uint64_t cost);
  Status MeetOffer(PeerLink& peer, const wire::P2pMessage& message, ReceiveOp** receive, Status* refusal);
  Status OnOffered(PeerLink& peer, const wire::P2pMessage& message);
  Result<pipe::Landing> OnPushedHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                       const wire::P2pMessage& message);
  Status OnLanded(Lane& lane, PeerLink& peer, uint64_t call, uint64_t send);
  Status OnPull(PeerLink& peer, const wire::P2pMessage& message);
  Result<pipe::Landing> OnDataHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                     const wire::P2pMessage& message);
  Status OnData(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Status OnWithdraw(PeerLink& peer, const wire::P2pMessage& message);
  Status OnAhead(PeerLink& peer, const wire::P2pMessage& message);

  // ---- core_memory.cc ----
  bool DispatchPut(PutOp* op);
  bool DispatchGet(GetOp* op);
  void BeginAwait(AwaitOp* op);
  Result<Bytes> PartOfPut(const wire::P2pMessage& message, uint64_t bytes);
  Result<Bytes> PartOf(uint64_t region, uint64_t offset, uint64_t bytes, Access access);
  Result<pipe::Landing> OnPutHeader(Lane& lane, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Status OnPut(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  Status OnGet(Lane& lane, PeerLink& peer, const wire::P2pMessage& message);
  Result<pipe::Landing> OnGotHeader(Lane& lane, PeerLink& peer, const wire::FrameHeader& header,
                                    const wire::P2pMessage& message);
  Status OnGot(Lane& lane, PeerLink& peer, const wire::FrameHeader& header, const wire::P2pMessage& message);
  void Drop(RegionState* state);

  pipe::Shared& shared_;
  reactor::Reactor& home_;
  transport::Transport& transport_;
  const Limits limits_;
  const uint64_t eager_bytes_max_;
  OnPeer on_peer_;
  Slots<Op, 31> ops_;  // bit 63 says whose table a name is from
  Slots<RegionState, 31> regions_;
  Slots<SignalState, 31> signals_;
  Matcher matcher_;
  std::map<std::string, std::unique_ptr<PeerLink>> peers_;
  std::vector<std::unique_ptr<OfferRange>> offer_ranges_;
  std::vector<uint8_t> scratch_;
  bool beginning_ = false;  // inside Post
  uint32_t ends_later_ = 0;
  List<Op> ended_;  // inside Post, at home: their ends follow once what was sent is on its way
  class Ends final : public reactor::Flushable {
   public:
    explicit Ends(Core* core) : core_(*core) {}
    void Flush() override { core_.FinishEnded(); }

   private:
    Core& core_;
  };
  Ends ends_{this};
  bool closed_ = false;
};

// The sum of their sizes.
template <class Part>
uint64_t TotalOf(const std::vector<Part>& parts) {
  uint64_t sum = 0;
  for (const Part& part : parts) sum += part.size;
  return sum;
}
// Copies `from` into the parts, one after the other; they have room for it.
void Scatter(ConstBytes from, const std::vector<Bytes>& parts);

}  // namespace p2p
}  // namespace fusewire

#endif  // FUSEWIRE_P2P_CORE_H_
