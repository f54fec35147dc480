// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// One connection: it begins on the lower transport, where the two ends meet, and its stream goes on over UCX if both
// can. What they met over stays open: its end is the peer's end.
#ifndef FUSEWIRE_TRANSPORT_UCX_UCX_CONNECTION_H_
#define FUSEWIRE_TRANSPORT_UCX_UCX_CONNECTION_H_

#include "fusewire/transport/transport.h"
#include "fusewire/transport/ucx/worker.h"

#if FUSEWIRE_HAS_UCX

#include <map>
#include <memory>
#include <string>
#include <vector>

namespace fusewire {
namespace transport {

class UcxConnection final : public Connection,
                            private ConnectionHandler,
                            private UcxEnd,
                            private UcxLender,
                            private UcxPeerUser {
 public:
  // A dialler's end, in `dialled` words its address; or a listener's.
  UcxConnection(reactor::Reactor& home, UcxWorker* worker, const UcxOptions& options, std::unique_ptr<Connection> lower,
                std::string dialled);
  ~UcxConnection() override;

  // The dialler's end, once, before Start.
  void Greet();
  void Start(ConnectionHandler* handler) override;
  void Write(const ConstBytes* parts, size_t count) override;
  bool Delivered() const override { return stage_ == Stage::kMoved || lower_->Delivered(); }
  void Close(Status why) override;
  void Look() override;
  void TakeBackLanding() override;
  const std::string& peer_address() const override { return lower_->peer_address(); }
  const char* wire() const override { return stage_ == Stage::kMoved ? "ucx" : lower_->wire(); }

 private:
  enum class Stage {
    kAsking,     // a dialler that has said hello
    kListening,  // a listener that does not know yet what kind of peer this is
    kStayed,     // the stream is where it began
    kMoved,      // the stream goes over UCX
  };
  struct Record {
    void* data = nullptr;
    size_t bytes = 0;
    bool loan = false;
    uint64_t saw = 0;
  };

  // What the lower connection tells.
  size_t Landing(Bytes* parts, size_t parts_max) override;
  void OnLanded(size_t bytes) override;
  size_t LookAhead() override;
  uint64_t Expected() override;
  void OnBytes(ConstBytes bytes) override;
  void OnWritten(size_t bytes) override;
  void OnClosed(Status why) override;
  // What UCX tells.
  bool OnRecord(const UcxRecord& record, void* data, size_t bytes, bool rendezvous) override;
  void OnLoanBack(ucs_status_t status) override;
  void OnReceived(ucs_status_t status, size_t bytes) override;
  void Deliver() override;
  void OnPeerFailed(const Status& why) override;

  void OnNote();
  void OnHello(const UcxNote& note, ConstBytes address);
  void OnWelcome(const UcxNote& note, ConstBytes address);
  void OnMove(const UcxNote& note);
  void UsePeer(UcxPeer* peer);
  void SayNote(UcxNoteKind kind, uint64_t value = 0, ConstBytes behind = ConstBytes());
  void SayNext();
  void Stay();
  void BeStranger();
  void Feed(ConstBytes data);
  void FeedLong(ConstBytes data);
  bool direct() const { return handler_ != nullptr && early_in_.empty(); }

  size_t Take(const ConstBytes* parts, size_t count, size_t* offered);
  bool HasRoom(uint64_t cost) const { return sent_cost_ - taken_by_peer_ + cost <= kUcxWindowBytes; }
  void SendTaken();
  void AnswerWrite();
  void DeliverRecords();
  void ReceiveLoan(const Record& record);
  void FinishLoan();
  bool HasNext() const { return !records_.empty() && records_.begin()->first == next_in_ && next_in_ < end_in_; }
  void FinishIfEnded();

  void Fail(Status why) { Close(why.Next("check that the peer is running and reachable")); }
  void Stop();
  void DropRecords();
  void AwaitSettled();
  template <class Done>
  void DriveUntil(Done done);
  bool settled() const { return loans_out_ == 0 && !receiving_; }
  void Settle();
  void TellEnd();
  void DoLater();

  reactor::Reactor& home_;
  const UcxOptions& options_;
  const std::unique_ptr<Connection> lower_;
  const std::string dialled_;  // empty: we are the listener's end
  ConnectionHandler* handler_ = nullptr;
  Stage stage_;
  bool closed_ = false, told_ = false;
  Status why_closed_;

  // Over the lower connection.
  std::vector<uint8_t> note_;     // the next note, as far as it is here
  std::vector<uint8_t> dialler_;  // at a listener, its worker's address, until it says kMove
  size_t note_bytes_ = 0, note_wanted_ = sizeof(UcxNote);
  bool reads_notes_ = true;
  bool lower_started_ = false, lower_writing_ = false, lower_ended_ = false;
  bool lower_tells_end_ = false;   // our end is the lower connection's: it says when
  bool lower_write_ours_ = false;  // what is being written is a note
  std::vector<uint8_t> say_;       // notes and early words that wait, or are being written
  size_t said_ = 0;
  std::vector<uint8_t> early_in_;   // what a peer that stayed said before we were started
  std::vector<uint8_t> early_out_;  // what we were given before we knew the way
  bool write_waiting_ = false;      // a Write is unanswered

  // Over UCX.
  uint64_t id_ = 0, peer_id_ = 0;
  UcxPeer* peer_ = nullptr;
  uint64_t next_out_ = 0, answered_out_ = 0;  // sequences: of the next record, and behind the last answered Write
  uint64_t sent_cost_ = 0, taken_by_peer_ = 0;
  bool full_ = false;
  size_t loans_out_ = 0;
  uint64_t lent_to_ = 0;    // behind the last loan
  size_t lent_answer_ = 0;  // what the Write is answered once all loans are back; 0: it waits for room
  std::map<uint64_t, Record> records_;
  uint64_t next_in_ = 0;
  uint64_t came_cost_ = 0, taken_cost_ = 0, taken_said_ = 0;
  uint64_t end_in_ = UINT64_MAX;  // the peer has closed: nothing follows from this one on
  bool receiving_ = false;        // a loan is landing
  bool received_ = false;         // ... has landed
  ucs_status_t receive_status_ = UCS_OK;
  size_t receive_bytes_ = 0;
  bool lost_ = false;  // one did not land: nothing behind it is worth anything
  bool waits_for_rest_ = false, waits_for_end_ = false;
  std::unique_ptr<uint8_t[]> aside_;  // where it lands if the handler has less room
  Status corrupt_;                    // the peer broke the rules, and we were inside UCX
  Status broken_;                     // UCX lost the peer

  reactor::Timer later_;  // what must not happen inside of somebody's call
  reactor::Timer grace_;  // how long the other half of an end may take
};

}  // namespace transport
}  // namespace fusewire

#endif

#endif  // FUSEWIRE_TRANSPORT_UCX_UCX_CONNECTION_H_
