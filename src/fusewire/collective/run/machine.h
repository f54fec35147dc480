// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A schedule made ready to run over an endpoint, again and again: its steps, which of them each one waits for, and an
// operation of the endpoint for each message. Steps begin as soon as what they read is there and what they write is
// free; messages of later stages travel while earlier ones are reduced.
// Home: the endpoint's reactor. Owns: its operations and scratch; not the arrays, and not the peers.
// Fails: ends with the first error, once no operation is under way and so nothing touches the arrays any more.
#ifndef FUSEWIRE_COLLECTIVE_RUN_MACHINE_H_
#define FUSEWIRE_COLLECTIVE_RUN_MACHINE_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "fusewire/base/status.h"
#include "fusewire/buffer/buffer.h"
#include "fusewire/collective/kernels/arithmetic.h"
#include "fusewire/collective/kernels/pieces.h"
#include "fusewire/collective/run/fingerprint.h"
#include "fusewire/collective/schedule/schedule.h"
#include "fusewire/p2p/endpoint.h"

namespace fusewire {
namespace collective {

class Machine;
struct GroupOperation;

// Whom a Machine works for.
class MachineOwner {
 public:
  // The send may go, now or once its peer is there; then Machine::PostSend.
  virtual void OnSendReady(Machine* machine, int rank, size_t node) = 0;
  // It has something to reduce or to copy: call Work() until that says no.
  virtual void OnWorkReady(Machine* machine) = 0;
  // It has said that it sends nothing more; what it sent before has come.
  virtual bool HasLeft(int rank) const = 0;
  // The first message of that rank has come, with this head.
  virtual Status CheckHead(Machine* machine, int rank, const std::string& head) = 0;
  // A message from that rank has failed, or one to it (`sent`).
  virtual void OnMessageFailed(Machine* machine, int rank, bool sent, const Status& why) = 0;
  // Nothing of it is under way. It may be begun again.
  virtual void OnMachineEnded(Machine* machine) = 0;

 protected:
  ~MachineOwner() = default;
};

class Machine {
 public:
  // `peers` by rank, null for this one.
  static Result<std::unique_ptr<Machine>> Make(const Request& request, size_t element_bytes, p2p::Endpoint* endpoint,
                                               const std::vector<p2p::Peer*>& peers, MachineOwner* owner);

  // What changes from run to run.
  struct Run {
    Reduction reduction;
    Pieces input;
    Pieces output;
    uint64_t tag = 0;
    Fingerprint print;
    bool confirm = false;  // its sends end when a receive has them
    bool hurried = false;  // something more urgent is under way: hold back
  };
  void Prepare(const Run& run);
  void Begin();
  void PostSend(size_t index);
  // Reduces and copies about `bytes_max`. True: there is more to do now.
  bool Work(size_t bytes_max);
  // It ends, with `why`, as soon as it can; at once if nothing is under way, and then OnMachineEnded has been called.
  void Fail(const Status& why);
  // Receives that would wait for that rank fail, with kCancelled.
  void ExpectNoMoreOf(int rank);

  bool running() const { return running_; }
  const Status& status() const { return status_; }
  const Request& request() const { return request_; }
  size_t nodes() const { return nodes_.size(); }
  bool HearsFrom(int rank) const { return hears_from_[static_cast<size_t>(rank)]; }
  // Whether a message of that rank that nobody has asked for can no longer be its first: the first has a receive.
  bool met(int rank) const { return met_[static_cast<size_t>(rank)]; }
  void SetMet(int rank) { met_[static_cast<size_t>(rank)] = true; }
  // Ranks whose messages it waits for, in words.
  std::vector<int> WaitsFor() const;
  void SetHurried(bool hurried) { run_.hurried = hurried; }
  const Fingerprint& print() const { return run_.print; }
  uint64_t tag() const { return run_.tag; }

  // Kept by the owner.
  GroupOperation* operation = nullptr;
  bool work_queued = false;

 private:
  struct Node {
    const Step* step = nullptr;
    uint32_t stage = 0;
    uint32_t needs = 0;             // ends, and postings, that it waits for
    uint32_t left = 0;              // of them, in this run
    std::vector<uint32_t> enables;  // nodes that wait for its end
    int64_t next_posted = -1;       // the node that waits for it to be posted
    std::unique_ptr<p2p::SendOp> send;
    std::unique_ptr<p2p::ReceiveOp> receive;
    bool opens = false;  // the first message with its peer
    bool posted = false;
    size_t done = 0;  // elements, of a reduction or a copy

    // Its message, if that has been posted and has not ended.
    p2p::Op* under_way() const {
      p2p::Op* const op = send != nullptr ? static_cast<p2p::Op*>(send.get()) : receive.get();
      return posted && !op->Test() ? op : nullptr;
    }
  };

  Machine(const Request& request, size_t element_bytes, MachineOwner* owner);
  void Flatten();
  void FindNeeds();
  void ChainMessages();
  void MakeOps(p2p::Endpoint* endpoint, const std::vector<p2p::Peer*>& peers);
  void Need(size_t node, size_t before);

  void Release(size_t node);
  void Drain();
  void BeginNode(size_t index);
  void EndNode(size_t index);
  void OnPosted(size_t index);
  void OnSendEnded(size_t index);
  void OnReceiveEnded(size_t index);
  void OnMessageError(size_t index, const Status& why);
  void EndIfIdle();
  const Pieces* PiecesOf(Memory memory) const;
  size_t SmallRun(Part part, size_t from, uint8_t** data);
  template <class View>
  void ViewInto(const Part& part, std::vector<View>* views);
  size_t WorkOn(Node* node, size_t bytes_max);

  const Request request_;
  const size_t element_bytes_;
  MachineOwner* const owner_;
  Schedule schedule_;
  std::vector<Node> nodes_;
  std::vector<uint32_t> stage_nodes_;  // how many
  std::vector<bool> hears_from_;
  size_t window_ = 0;
  Buffer scratch_;
  uint8_t print_bytes_[kFingerprintBytes] = {};

  Run run_;
  std::optional<Reducer> reducer_;
  std::vector<size_t> input_starts_, output_starts_;  // of pieces, where there are several
  std::vector<uint32_t> stage_left_;
  size_t open_stage_ = 0;
  std::vector<std::vector<uint32_t>> late_;  // released, but too many stages ahead
  std::vector<uint32_t> ready_;
  std::vector<uint32_t> work_;
  size_t work_at_ = 0;
  std::vector<const void*> sources_;
  std::vector<bool> met_;
  size_t nodes_left_ = 0;
  size_t under_way_ = 0;  // operations of the endpoint
  bool running_ = false;
  bool draining_ = false;
  Status status_;
};

}  // namespace collective
}  // namespace fusewire

#endif  // FUSEWIRE_COLLECTIVE_RUN_MACHINE_H_
