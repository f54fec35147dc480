// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/ucx/ucx_connection.h"

#if FUSEWIRE_HAS_UCX

#include <algorithm>
#include <iterator>
#include <thread>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/transport/reading.h"

namespace fusewire {
namespace transport {
namespace {

// What may be said before the way is known, and heard before somebody listens.
constexpr size_t kEarlyBytesMax = 64 * 1024;
// How long what the peer said before it ended may take, and the word on how an endpoint broke.
constexpr int64_t kGraceNs = 2 * kSecondNs;
constexpr int64_t kBrokenGraceNs = 200 * kMillisecondNs;
// How long memory that is in the peer's hands may stay there after the end, before the way to the peer is cut.
constexpr int64_t kSettleNs = 300 * kMillisecondNs;
constexpr int64_t kCutLookNs = 5 * kMillisecondNs;
constexpr int64_t kCutNs = 10 * kSecondNs;

void Append(std::vector<uint8_t>* to, ConstBytes bytes) { to->insert(to->end(), bytes.data, bytes.data + bytes.size); }

}  // namespace

UcxConnection::UcxConnection(reactor::Reactor& home, UcxWorker* its_worker, const UcxOptions& options,
                             std::unique_ptr<Connection> lower, std::string dialled)
    : UcxEnd(its_worker),
      home_(home),
      options_(options),
      lower_(std::move(lower)),
      dialled_(std::move(dialled)),
      stage_(dialled_.empty() ? Stage::kListening : Stage::kAsking),
      later_([this] { DoLater(); }),
      grace_([this] { DoLater(); }) {
  note_.resize(sizeof(UcxNote));
  if (worker != nullptr) id_ = worker->Add(this);
}

UcxConnection::~UcxConnection() {
  Stop();
  Settle();
  if (worker == nullptr) return;
  worker->endpoints().Release(this);
  worker->Remove(id_);
}

void UcxConnection::Greet() {
  lower_started_ = true;
  lower_->Start(this);
  SayNote(UcxNoteKind::kHello, 0, worker->address());
}

void UcxConnection::Start(ConnectionHandler* handler) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(handler_ == nullptr);
  handler_ = handler;
  if (!std::exchange(lower_started_, true)) lower_->Start(this);
  home_.Arm(&later_, 0);  // something may have come already, even the end
}

void UcxConnection::Look() {
  if (closed_) return;
  if (stage_ != Stage::kMoved) {
    if (lower_started_ && !lower_ended_) lower_->Look();
  } else if (worker->progress().Look()) {
    Deliver();
  }
}

// ---- meeting ----

size_t UcxConnection::Landing(Bytes* parts, size_t parts_max) {
  if (reads_notes_) {
    parts[0] = Bytes(note_.data() + note_bytes_, note_wanted_ - note_bytes_);
    return 1;
  }
  return direct() ? handler_->Landing(parts, parts_max) : 0;
}

size_t UcxConnection::LookAhead() {
  if (reads_notes_) return 0;
  return direct() ? handler_->LookAhead() : kEarlyBytesMax;
}

uint64_t UcxConnection::Expected() { return reads_notes_ || !direct() ? 0 : handler_->Expected(); }

void UcxConnection::OnLanded(size_t bytes) {
  if (!reads_notes_) {
    handler_->OnLanded(bytes);
    return;
  }
  note_bytes_ += bytes;
  OnNote();
}

void UcxConnection::OnBytes(ConstBytes bytes) {
  if (direct()) {
    handler_->OnBytes(bytes);
    return;
  }
  Append(&early_in_, bytes);
  if (early_in_.size() > kEarlyBytesMax) Fail(Status::Overloaded("the peer spoke on and on to nobody"));
}

void UcxConnection::OnNote() {
  UcxNote note;
  const size_t magic_bytes = std::min(note_bytes_, sizeof(note.magic));
  const auto* magic = reinterpret_cast<const uint8_t*>(&note.magic);
  if (!std::equal(magic, magic + magic_bytes, note_.data())) {
    BeStranger();
    return;
  }
  if (note_bytes_ < note_wanted_) return;
  const UcxNote expected;
  CopyBytes(Bytes(&note, sizeof(note)), ConstBytes(note_.data(), sizeof(note)));
  if (note.version != expected.version || note.address_bytes > kUcxAddressBytesMax) {
    Fail(Status::Corrupt("the peer's greeting is not ours"));
    return;
  }
  if (note_bytes_ < sizeof(note) + note.address_bytes) {
    note_wanted_ = sizeof(note) + note.address_bytes;
    note_.resize(note_wanted_);
    return;
  }
  const std::vector<uint8_t> whole = std::exchange(note_, std::vector<uint8_t>(sizeof(UcxNote)));
  note_bytes_ = 0;
  note_wanted_ = sizeof(UcxNote);
  const ConstBytes address = ConstBytes(whole.data(), whole.size()).From(sizeof(note));
  const bool asking = stage_ == Stage::kAsking, listening = stage_ == Stage::kListening;
  const bool moved = stage_ == Stage::kMoved, listener = dialled_.empty();
  if (note.kind == UcxNoteKind::kHello && listening) {
    OnHello(note, address);
  } else if (note.kind == UcxNoteKind::kWelcome && asking) {
    OnWelcome(note, address);
  } else if (note.kind == UcxNoteKind::kNo && asking) {
    Stay();
  } else if (note.kind == UcxNoteKind::kStay && listener && !listening) {
    // It closed before it heard us: what it had said comes this way.
    stage_ = Stage::kStayed;
    reads_notes_ = false;
  } else if (note.kind == UcxNoteKind::kMove && moved && !dialler_.empty()) {
    OnMove(note);
  } else if (note.kind == UcxNoteKind::kEnd && moved && end_in_ == UINT64_MAX) {
    end_in_ = note.value;
  } else {
    Fail(Status::Corrupt("the peer said the wrong thing while meeting"));
  }
}

// A peer that does not speak of UCX at all: its stream has begun.
void UcxConnection::BeStranger() {
  if (stage_ != Stage::kListening) {
    Fail(Status::Corrupt("the peer's greeting is not ours"));
    return;
  }
  stage_ = Stage::kStayed;
  reads_notes_ = false;
  const std::vector<uint8_t> begun(note_.begin(), note_.begin() + static_cast<std::ptrdiff_t>(note_bytes_));
  Feed(ConstBytes(begun.data(), begun.size()));
  if (!closed_) AnswerWrite();
}

void UcxConnection::OnHello(const UcxNote& note, ConstBytes address) {
  const auto stay = [this] {
    stage_ = Stage::kStayed;
    SayNote(UcxNoteKind::kNo);  // its kStay is the last note
  };
  if (worker == nullptr || note.id == 0 || !(options_.always || (note.has_rdma != 0 && !RdmaDevices().empty()))) {
    stay();
    return;
  }
  Result<UcxPeer*> peer = worker->endpoints().Reach(address);
  if (!peer.ok()) {
    worker->strangers().LogUnreached(peer_address(), peer.status());
    stay();
    return;
  }
  // Which endpoint it will be is known when the dialler has named its own.
  Append(&dialler_, address);
  peer_id_ = note.id;
  stage_ = Stage::kMoved;
  SayNote(UcxNoteKind::kWelcome, peer.value()->name, worker->address());
}

void UcxConnection::OnMove(const UcxNote& note) {
  const std::vector<uint8_t> dialler = std::exchange(dialler_, {});
  Result<UcxPeer*> peer = worker->endpoints().Meet(ConstBytes(dialler.data(), dialler.size()), note.value);
  if (!peer.ok()) return Fail(peer.status());
  UsePeer(peer.value());
  worker->DeliverLater(this);
  AnswerWrite();
}

void UcxConnection::UsePeer(UcxPeer* peer) {
  FUSEWIRE_CHECK(peer_ == nullptr);
  peer_ = peer;
  worker->endpoints().Use(peer, this);
}

void UcxConnection::OnWelcome(const UcxNote& note, ConstBytes address) {
  Result<UcxPeer*> peer =
      note.id != 0 ? worker->endpoints().Meet(address, note.value) : Status::Unavailable("it has no number");
  if (!peer.ok()) return Fail(peer.status());
  UsePeer(peer.value());
  peer_id_ = note.id;
  stage_ = Stage::kMoved;
  SayNote(UcxNoteKind::kMove, peer_->name);
  size_t offered = 0;
  const ConstBytes early(early_out_.data(), early_out_.size());
  const std::vector<uint8_t> kept = std::exchange(early_out_, {});
  for (ConstBytes left = early; !left.empty();) {
    const ConstBytes piece = left.Sub(0, std::min<size_t>(left.size, kUcxBytesMax));
    if (Take(&piece, 1, &offered) < piece.size) break;  // there is room: UCX has lost the peer
    left = left.From(piece.size);
  }
  answered_out_ = next_out_;
  worker->DeliverLater(this);  // its first records may have been faster than its welcome
  AnswerWrite();
}

// The listener does not want to: the dialler says so too, and its stream begins.
void UcxConnection::Stay() {
  stage_ = Stage::kStayed;
  reads_notes_ = false;
  SayNote(UcxNoteKind::kStay, 0, ConstBytes(early_out_.data(), early_out_.size()));
  early_out_.clear();
  AnswerWrite();
}

// Notes go out one behind the other; nothing of the handler's comes between.
void UcxConnection::SayNote(UcxNoteKind kind, uint64_t value, ConstBytes behind) {
  UcxNote note;
  note.kind = kind;
  note.id = id_;
  note.has_rdma = kind == UcxNoteKind::kHello && !RdmaDevices().empty() ? 1 : 0;
  note.value = value;
  if (kind == UcxNoteKind::kHello || kind == UcxNoteKind::kWelcome)
    note.address_bytes = static_cast<uint32_t>(behind.size);
  Append(&say_, ConstBytes(&note, sizeof(note)));
  Append(&say_, behind);
  SayNext();
}

void UcxConnection::SayNext() {
  if (lower_writing_ || lower_ended_ || said_ == say_.size()) return;
  lower_writing_ = lower_write_ours_ = true;
  const ConstBytes rest = ConstBytes(say_.data(), say_.size()).From(said_);
  lower_->Write(&rest, 1);
}

void UcxConnection::OnWritten(size_t bytes) {
  lower_writing_ = false;
  if (!std::exchange(lower_write_ours_, false)) {
    write_waiting_ = false;
    handler_->OnWritten(bytes);
    return;
  }
  said_ += bytes;
  if (said_ < say_.size()) {
    SayNext();
    return;
  }
  say_.clear();
  said_ = 0;
  if (!closed_ && stage_ == Stage::kStayed) AnswerWrite();
}

void UcxConnection::OnClosed(Status why) {
  lower_ended_ = true;
  if (closed_ && !lower_tells_end_) return;
  if (!closed_ && stage_ == Stage::kMoved) {
    home_.Arm(&later_, 0);
    return;
  }
  if (stage_ == Stage::kAsking) worker->strangers().Add(dialled_);
  if (!std::exchange(closed_, true)) why_closed_ = std::move(why);
  DropRecords();
  if (handler_ == nullptr) return;
  if (settled()) {
    TellEnd();
  } else {
    AwaitSettled();
  }
}

// The last words to the handler; we may be gone when it returns.
void UcxConnection::TellEnd() {
  if (handler_ != nullptr && !std::exchange(told_, true)) handler_->OnClosed(why_closed_);
}

// Bytes that are here already, to a handler that says where it wants them.
void UcxConnection::Feed(ConstBytes data) {
  while (!data.empty() && !closed_) {
    Bytes into[kLandingPartsMax];
    const size_t parts = handler_->Landing(into, kLandingPartsMax);
    const size_t ahead_max = std::min(handler_->LookAhead(), sizeof(look_ahead));
    size_t landed = 0, landing = 0;
    for (size_t i = 0; i < parts; ++i) {
      const size_t piece = std::min(into[i].size, data.size);
      CopyBytes(into[i].Sub(0, piece), data.Sub(0, piece));
      data = data.From(piece);
      landed += piece;
      landing += into[i].size;
    }
    FUSEWIRE_CHECK(landing + ahead_max > 0);
    if (landed > 0) handler_->OnLanded(landed);
    const size_t ahead = std::min(ahead_max, data.size);
    if (closed_ || ahead == 0) continue;
    CopyBytes(Bytes(look_ahead, ahead), data.Sub(0, ahead));
    data = data.From(ahead);
    handler_->OnBytes(ConstBytes(look_ahead, ahead));
  }
}

void UcxConnection::FeedLong(ConstBytes data) {
  while (!data.empty() && !closed_) {
    const ConstBytes piece = data.Sub(0, std::min(data.size, kUcxBytesMax));
    Feed(piece);
    data = data.From(piece.size);
  }
}

// ---- writing ----

void UcxConnection::Write(const ConstBytes* parts, size_t count) {
  FUSEWIRE_AT_HOME(home_);
  FUSEWIRE_CHECK(!write_waiting_);
  if (closed_) return;  // OnClosed is on its way
  write_waiting_ = true;
  size_t taken = 0;
  if (stage_ == Stage::kStayed && !lower_writing_ && say_.empty()) {
    lower_writing_ = true;
    lower_->Write(parts, count);
    return;
  }
  if (stage_ == Stage::kAsking) {
    for (size_t i = 0; i < count && early_out_.size() < kEarlyBytesMax; ++i) {
      const size_t piece = std::min(parts[i].size, kEarlyBytesMax - early_out_.size());
      Append(&early_out_, parts[i].Sub(0, piece));
      taken += piece;
      if (piece < parts[i].size) break;
    }
  } else if (stage_ == Stage::kMoved && !full_ && peer_ != nullptr) {
    size_t offered = 0;
    taken = Take(parts, count, &offered);
    full_ = taken < offered;
  }
  if (loans_out_ > 0) {
    lent_answer_ = taken;
    return;
  }
  if (taken == 0) return;  // answered when there is a way, and room
  answered_out_ = next_out_;
  write_waiting_ = false;
  handler_->OnWritten(taken);
}

// Answers the Write that waits, if what it waits for has come.
void UcxConnection::AnswerWrite() {
  if (!write_waiting_ || closed_ || handler_ == nullptr || loans_out_ > 0) return;
  if (stage_ == Stage::kMoved) {
    if (peer_ == nullptr || !broken_.ok()) return;
    if (lent_answer_ > 0) answered_out_ = next_out_;
    if (lent_answer_ == 0) {
      if (!HasRoom(UcxCost(UcxRecordKind::kBytes, kUcxBytesMax))) return;
      full_ = false;
    }
  } else if (lower_writing_ || !say_.empty() || stage_ != Stage::kStayed) {
    return;
  }
  write_waiting_ = false;
  handler_->OnWritten(std::exchange(lent_answer_, 0));
}

// ---- the end ----

void UcxConnection::OnPeerFailed(const Status& why) {
  peer_ = nullptr;
  if (broken_.ok()) broken_ = why;
  worker->DeliverLater(this);
}

// The peer has gone: what it had written is still ours, as far as it came.
void UcxConnection::FinishIfEnded() {
  if (!lower_ended_) {
    if (broken_.ok()) return;
    if (!std::exchange(waits_for_rest_, true)) home_.Arm(&grace_, kBrokenGraceNs);  // the lower way may know better
    if (!grace_.armed()) Fail(broken_);
    return;
  }
  const bool said_so = end_in_ != UINT64_MAX;
  const bool more = receiving_ || HasNext() || (said_so && next_in_ < end_in_);
  if (more && !lost_) {
    if (!std::exchange(waits_for_end_, true)) home_.Arm(&grace_, said_so ? kGraceNs : kBrokenGraceNs);
    if (grace_.armed()) return;
  }
  Fail(Status::Unavailable(said_so ? "the peer closed the connection" : "the peer's process has ended"));
}

void UcxConnection::Close(Status why) {
  FUSEWIRE_AT_HOME(home_);
  if (closed_) return;
  if (stage_ == Stage::kStayed && lower_started_ && !lower_ended_) {
    closed_ = lower_tells_end_ = true;
    why_closed_ = why;
    lower_->Close(std::move(why));  // OnClosed follows from there
    return;
  }
  why_closed_ = std::move(why);
  Stop();
  if (handler_ == nullptr) return;
  home_.Arm(&later_, 0);
}

// Says the last words, and asks the peer to give back what is ours.
void UcxConnection::Stop() {
  if (std::exchange(closed_, true)) return;
  if (!lower_ended_ && lower_started_ && !lower_writing_) {
    if (stage_ == Stage::kMoved) SayNote(UcxNoteKind::kEnd, answered_out_);
    if (stage_ == Stage::kAsking) SayNote(UcxNoteKind::kStay, 0, ConstBytes(early_out_.data(), early_out_.size()));
  }
  DropRecords();
  if (!std::exchange(lower_ended_, true) && lower_started_) lower_->Close(Status::Cancelled("closed"));
  AwaitSettled();
}

// The peer has its time to give back what is ours.
void UcxConnection::AwaitSettled() {
  reactor::Reactor::Disarm(&grace_);
  if (!settled()) home_.Arm(&grace_, kSettleNs);
}

void UcxConnection::DropRecords() {
  for (const auto& [sequence, record] : records_) worker->GiveBack(record.data);
  records_.clear();
}

// Waits until nobody else holds memory of the handler's. A peer that does not give it back is cut off.
void UcxConnection::Settle() {
  DriveUntil([this] { return settled(); });
}

// A rendezvous that has begun cannot be called off: the peer finishes it, or is cut off.
void UcxConnection::TakeBackLanding() {
  FUSEWIRE_AT_HOME(home_);
  if (stage_ == Stage::kStayed) {
    if (lower_started_ && !lower_ended_) lower_->TakeBackLanding();
  } else if (aside_ == nullptr) {
    DriveUntil([this] { return !receiving_; });
  }
}

template <class Done>
void UcxConnection::DriveUntil(Done done) {
  if (done()) return;
  Clock* clock = home_.clock();
  const int64_t began_ns = clock->NowNs();
  bool cut = false;
  while (!done()) {
    if (!worker->progress().Look()) std::this_thread::yield();
    const int64_t waited_ns = clock->NowNs() - began_ns;
    if (!cut && waited_ns > kSettleNs) {
      cut = true;
      if (peer_ != nullptr) worker->endpoints().Break(peer_, UCS_ERR_ENDPOINT_TIMEOUT);
    }
    // Cutting needs nobody else: if it does not help, UCX would write into memory that is no longer ours.
    FUSEWIRE_CHECK(waited_ns < kCutNs);
  }
}

void UcxConnection::DoLater() {
  if (closed_) {
    if (!settled() && grace_.armed()) return;
    if (!settled()) {
      if (peer_ != nullptr) worker->endpoints().Break(peer_, UCS_ERR_ENDPOINT_TIMEOUT);
      worker->progress().Touch();
      home_.Arm(&grace_, kCutLookNs);
      return;
    }
    reactor::Reactor::Disarm(&grace_);
    if (!lower_tells_end_ || lower_ended_) TellEnd();
    return;
  }
  if (!early_in_.empty()) {
    const std::vector<uint8_t> early = std::exchange(early_in_, {});
    FeedLong(ConstBytes(early.data(), early.size()));
  }
  if (closed_ || stage_ != Stage::kMoved) return;
  if (lower_ended_) worker->progress().Look();
  Deliver();
}

}  // namespace transport
}  // namespace fusewire

#endif
