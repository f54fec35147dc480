// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/shm_listener.h"

#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <optional>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/random.h"
#include "fusewire/transport/listening.h"
#include "fusewire/transport/shm/others_memory.h"
#include "fusewire/transport/shm/shm_connection.h"

namespace fusewire::transport {
namespace {

// Processes that have sent no hello: one for each of a large job's tasks that dial at once. Of more, the oldest goes.
constexpr size_t kGuestsMax = 4096;
// Ports that are tried where any will do: of the dynamic range, as the system's own choice would be.
constexpr uint16_t kPortMin = 49152, kPortMax = 65535;
constexpr int kPortTries = 100;

Result<Fd> BindAndListen(const std::string& number, uint16_t port, const ShmOptions& options) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return Status::FromErrno(Code::kOverloaded, "socket", errno).Next("raise the limit of open files (ulimit -n)");
  }
  const UnixAddress where = SocketName(number, port);
  if (bind(fd.get(), where.get(), where.length) != 0 || listen(fd.get(), options.backlog) != 0) {
    return Status::FromErrno(Code::kInvalid, "bind", errno)
        .Next("choose another port, or stop the process that holds this one");
  }
  return fd;
}

Result<Fd> BindAnyPort(const std::string& number, uint16_t* port, const ShmOptions& options) {
  Random random(SystemRandom64());
  Result<Fd> fd = Status::Internal("no port was tried");
  for (int i = 0; i < kPortTries && !fd.ok(); ++i) {
    *port = static_cast<uint16_t>(random.Between(kPortMin, kPortMax));
    fd = BindAndListen(number, *port, options);
  }
  return fd;
}

// "*" for every address of this machine.
Result<std::string> NumberToListenAt(const Address& address) {
  SocketAddress where;
  if (address.host.empty() || address.host == "*") return std::string(kEverywhere);
  const std::string host = address.host == "localhost" ? WhereToListen(address.host).host : address.host;
  if (!ParseNumeric(host, address.port, &where)) {
    return Status::Invalid("the host to listen at is a name, and must be a numeric address")
        .Next("write the address in numbers, or :port for every interface");
  }
  std::string number = NumberOf(where);
  if (number == "0.0.0.0" || number == "::") return std::string(kEverywhere);
  if (IsOwnAddress(where)) return number;
  return Status::Invalid("bind: this host does not have the address").Next("choose an address of this host");
}

}  // namespace

// A process that has connected and not sent its hello yet.
class ShmListener::Guest final : public ListNode, private reactor::FdHandler {
 public:
  Guest(ShmListener* listener, Fd fd, PeerProcess peer)
      : process(peer),
        socket(std::move(fd)),
        listener_(listener),
        limit_([this] { listener_->TurnAway(this, Status::Timeout("it sent no hello within greeting_ns_max")); }) {}
  ~Guest() {
    if (watched_) listener_->home_.Unwatch(socket.get(), this);
  }
  Status Watch() {
    FUSEWIRE_CHECK(!watched_);
    Status watched = listener_->home_.Watch(socket.get(), EPOLLIN | EPOLLRDHUP, this);
    watched_ = watched.ok();
    if (watched_) listener_->home_.Arm(&limit_, listener_->options_.greeting_ns_max);
    return watched;
  }
  Fd TakeSocket() {
    FUSEWIRE_CHECK(socket.valid());
    if (std::exchange(watched_, false)) listener_->home_.Unwatch(socket.get(), this);
    return std::move(socket);
  }

  const PeerProcess process;
  Fd socket;
  std::optional<uint64_t> nonce;  // once it has knocked

 private:
  void OnEvents(uint32_t) override { listener_->OnPacket(this); }
  ShmListener* const listener_;
  bool watched_ = false;
  reactor::Timer limit_;
};

Result<std::unique_ptr<Listener>> ShmListener::Open(reactor::Reactor& home, const Address& address,
                                                    const ShmOptions& options, OnIncoming on_incoming) {
  FUSEWIRE_AT_HOME(home);
  Result<std::string> number = NumberToListenAt(address);
  if (!number.ok()) return number.status().Peer(address.ToString()).Phase("listen");
  Address taken = address;
  Result<Fd> fd = address.port == 0 ? BindAnyPort(number.value(), &taken.port, options)
                                    : BindAndListen(number.value(), address.port, options);
  if (!fd.ok()) return fd.status().Peer(address.ToString()).Phase("listen");
  auto listener = std::make_unique<ShmListener>(home, std::move(fd).value(), taken, options, std::move(on_incoming));
  Status watched = listener->accepting_.Start();
  if (!watched.ok()) return watched.Peer(address.ToString()).Phase("listen");
  return std::unique_ptr<Listener>(std::move(listener));
}

ShmListener::ShmListener(reactor::Reactor& home, Fd fd, const Address& address, const ShmOptions& options,
                         OnIncoming on_incoming)
    : home_(home),
      address_(address),
      options_(options),
      on_incoming_(std::move(on_incoming)),
      accepting_(home, std::move(fd), address,
                 [this](Fd accepted, const SocketAddress&) { Receive(std::move(accepted)); }) {}

ShmListener::~ShmListener() {
  FUSEWIRE_AT_HOME(home_);
  while (Guest* guest = guests_.front()) End(guest);
  FUSEWIRE_CHECK(guest_count_ == 0);
}

void ShmListener::Receive(Fd fd) {
  FUSEWIRE_AT_HOME(home_);
  Result<PeerProcess> process = PeerProcess::Of(fd.get());
  auto owned = std::make_unique<Guest>(this, std::move(fd), process.ok() ? process.value() : PeerProcess());
  Guest* guest = owned.release();  // the list's now; End() takes it back
  guests_.PushBack(guest);
  ++guest_count_;
  Status good = process.ok() ? guest->Watch() : process.status();
  if (!good.ok()) {
    TurnAway(guest, good);
  } else if (guest_count_ > kGuestsMax) {
    TurnAway(guests_.front(), Status::Overloaded("more than " + std::to_string(kGuestsMax) +
                                                 " processes have connected and sent no hello"));
  }
}

void ShmListener::OnPacket(Guest* guest) {
  const bool knocked = guest->nonce.has_value();
  std::optional<Result<Packet>> received =
      ReceiveControl(guest->socket.get(), knocked ? ShmControlKind::kHello : ShmControlKind::kKnock);
  if (!received.has_value()) return;
  Status good = received->status();
  if (good.ok()) {
    good = knocked ? OnHello(guest, std::move(*received).value()) : OnKnock(guest, received->value().message);
  }
  if (!good.ok()) TurnAway(guest, good);
}

Status ShmListener::OnKnock(Guest* guest, const ShmControlMessage& knock) {
  ShmControlMessage ours;
  ours.kind = ShmControlKind::kKnock;
  ours.answer = knock.nonce;
  ours.nonce = SystemRandom64();
  guest->nonce = ours.nonce;
  return SendControl(guest->socket.get(), ours, nullptr);
}

// Good: the guest has gone.
Status ShmListener::OnHello(Guest* guest, Packet hello) {
  if (hello.message.answer != guest->nonce)
    return Status::Corrupt("its hello does not answer our knock")
        .Next("run the same version of Fusewire in both tasks");
  FUSEWIRE_TRY(guest->process.CheckSender(hello.sender));
  Result<std::unique_ptr<Segment>> segment = Segment::Attach(hello.files[0], hello.message.ring_bytes);
  if (!segment.ok()) return segment.status();
  hello.files[0].Close();
  const pid_t peer = guest->process.pid();
  const bool can_read = options_.lend && CanReadOrLog(peer, hello.message.probe_address, hello.message.probe_word);
  ShmControlMessage welcome;
  welcome.kind = ShmControlKind::kWelcome;
  welcome.probe_address = ProbeAddress();
  welcome.probe_word = ProbeWord();
  FUSEWIRE_TRY(SendControl(guest->socket.get(), welcome, nullptr));
  auto origin = std::unique_ptr<ShmOrigin>(new ShmOrigin{std::move(hello), can_read, options_});
  auto incoming =
      std::make_unique<ShmIncoming>(guest->TakeSocket(), std::move(segment).value(), std::move(origin), peer);
  End(guest);
  on_incoming_(std::move(incoming));
  return Status::Ok();
}

void ShmListener::TurnAway(Guest* guest, const Status& why) {
  uint64_t suppressed = 0;
  const bool gone = why.code() == Code::kUnavailable;  // it closed, or only looked whether we listen
  if (!gone && away_log_.Allow(home_.now_ns(), &suppressed)) {
    FUSEWIRE_LOG(kWarn, "listener %s does not share memory with process %d (%llu more in between): %s",
                 address_.ToString().c_str(), static_cast<int>(guest->process.pid()),
                 static_cast<unsigned long long>(suppressed), why.Explained().c_str());
  }
  End(guest);
}

void ShmListener::End(Guest* guest) {
  FUSEWIRE_CHECK(guest_count_ > 0);
  FUSEWIRE_CHECK(guest->linked());
  guest->Unlink();
  --guest_count_;
  const std::unique_ptr<Guest> ours(guest);
}

}  // namespace fusewire::transport
