// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "fusewire/base/check.h"
#include "fusewire/base/list.h"
#include "fusewire/base/log.h"
#include "fusewire/base/random.h"
#include "fusewire/transport/accepting.h"
#include "fusewire/transport/dialing.h"
#include "fusewire/transport/listening.h"
#include "fusewire/transport/shm/control_message.h"
#include "fusewire/transport/shm/peer_process.h"
#include "fusewire/transport/shm/shm_connection.h"
#include "fusewire/transport/shm/shm_sender.h"
#include "fusewire/transport/transports.h"

namespace fusewire::transport {
namespace {

// Meets processes that want to share memory. It goes on when this process runs out of descriptors.
class ShmListener final : public Listener {
 public:
  static Result<std::unique_ptr<Listener>> Open(reactor::Reactor& home, const Address& address, bool lend,
                                                OnIncoming on_incoming);
  ShmListener(reactor::Reactor& home, Fd fd, const Address& address, bool lend, OnIncoming on_incoming);
  ~ShmListener() override;
  Address address() const override { return address_; }

 private:
  class PendingPeer;
  void Receive(Fd fd);
  void OnPacket(PendingPeer* pending);
  static Status OnKnock(PendingPeer* pending, const ShmControlMessage& knock);
  Status OnHello(PendingPeer* pending, Packet hello);
  void TurnAway(PendingPeer* pending, const Status& why);
  void End(PendingPeer* pending);

  reactor::Reactor& home_;
  const Address address_;
  const bool lend_;  // see MakeShm
  OnIncoming on_incoming_;
  LogLimiter away_log_{10 * kSecondNs};
  List<PendingPeer> pending_;  // those that have sent no hello yet, the oldest first; ours
  size_t pending_count_ = 0;
  Accepting accepting_;
};

// One attempt to meet a task of this machine: the places where it may be met in turn, within one deadline.
class ShmDialing final : public DialingInTurn {
 public:
  ShmDialing(reactor::Reactor& home, Address address, bool lend, OnDialed on_dialed)
      : DialingInTurn(home, std::move(address), std::move(on_dialed)), lend_(lend) {}

 private:
  void OnNames(const Names& names) override;
  void TryNext() override;
  void Drop() override;
  void OnEvents(uint32_t epoll_events) override;
  Status Connect();
  Status TakeKnock(const Packet& knock);
  void TakeWelcome(const ShmControlMessage& welcome);
  Status SayHello(uint64_t answer);

  const bool lend_;  // see MakeShm
  std::vector<UnixAddress> places_;
  std::string number_;  // of the host, for words
  PeerProcess process_;
  uint64_t nonce_ = 0;
  std::unique_ptr<ShmConnection> connection_;  // from our hello on
};

// Processes that have sent no hello: one for each of a large job's tasks that dial at once. Of more, the oldest goes.
constexpr size_t kPendingMax = 4096;
// How long one of them may take to send it.
constexpr int64_t kGreetingNsMax = 5 * kSecondNs;
constexpr int kBacklog = 4096;
// Each direction's; a power of two. Memory is used as far as it is written: a connection that carries little keeps to
// the first pages.
constexpr uint32_t kRingBytes = 512 * 1024;
// Ports that are tried where any will do: of the dynamic range, as the system's own choice would be.
constexpr uint16_t kPortMin = 49152, kPortMax = 65535;
constexpr int kPortTries = 100;

Result<Fd> BindAndListen(const std::string& number, uint16_t port) {
  Fd fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd.valid()) {
    return Status::FromErrno(Code::kOverloaded, "socket", errno).Next("raise the limit of open files (ulimit -n)");
  }
  const UnixAddress where = SocketName(number, port);
  if (bind(fd.get(), where.get(), where.length) != 0 || listen(fd.get(), kBacklog) != 0) {
    return Status::FromErrno(Code::kInvalid, "bind", errno)
        .Next("choose another port, or stop the process that holds this one");
  }
  return fd;
}

Result<Fd> BindAnyPort(const std::string& number, uint16_t* port) {
  Random random(SystemRandom64());
  Result<Fd> fd = Status::Internal("no port was tried");
  for (int i = 0; i < kPortTries && !fd.ok(); ++i) {
    *port = static_cast<uint16_t>(random.Between(kPortMin, kPortMax));
    fd = BindAndListen(number, *port);
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

// How long a listener whose queue is full gets before it is asked again: a unix socket has no other way to wait for it.
constexpr int64_t kQueueFullNs = kMillisecondNs;

// ---- listening ----

// A process that has connected and not sent its hello yet.
class ShmListener::PendingPeer final : public ListNode, private reactor::FdHandler {
 public:
  PendingPeer(ShmListener* listener, Fd fd, PeerProcess peer)
      : process(peer), socket(std::move(fd)), listener_(listener), limit_([this] {
          listener_->TurnAway(this, Status::Timeout("it sent no hello").AgeMs(kGreetingNsMax / kMillisecondNs));
        }) {}
  ~PendingPeer() {
    if (watched_) listener_->home_.Unwatch(socket.get(), this);
  }
  Status Watch() {
    FUSEWIRE_CHECK(!watched_);
    Status watched = listener_->home_.Watch(socket.get(), EPOLLIN | EPOLLRDHUP, this);
    watched_ = watched.ok();
    if (watched_) listener_->home_.Arm(&limit_, kGreetingNsMax);
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

Result<std::unique_ptr<Listener>> ShmListener::Open(reactor::Reactor& home, const Address& address, bool lend,
                                                    OnIncoming on_incoming) {
  FUSEWIRE_AT_HOME(home);
  Result<std::string> number = NumberToListenAt(address);
  if (!number.ok()) return number.status().Peer(address.ToString()).Phase("listen");
  Address taken = address;
  Result<Fd> fd =
      address.port == 0 ? BindAnyPort(number.value(), &taken.port) : BindAndListen(number.value(), address.port);
  if (!fd.ok()) return fd.status().Peer(address.ToString()).Phase("listen");
  auto listener = std::make_unique<ShmListener>(home, std::move(fd).value(), taken, lend, std::move(on_incoming));
  Status watched = listener->accepting_.Start();
  if (!watched.ok()) return watched.Peer(address.ToString()).Phase("listen");
  return std::unique_ptr<Listener>(std::move(listener));
}

ShmListener::ShmListener(reactor::Reactor& home, Fd fd, const Address& address, bool lend, OnIncoming on_incoming)
    : home_(home),
      address_(address),
      lend_(lend),
      on_incoming_(std::move(on_incoming)),
      accepting_(home, std::move(fd), address,
                 [this](Fd accepted, const SocketAddress&) { Receive(std::move(accepted)); }) {}

ShmListener::~ShmListener() {
  FUSEWIRE_AT_HOME(home_);
  while (PendingPeer* pending = pending_.front()) End(pending);
  FUSEWIRE_CHECK(pending_count_ == 0);
}

void ShmListener::Receive(Fd fd) {
  FUSEWIRE_AT_HOME(home_);
  Result<PeerProcess> process = PeerProcess::Of(fd.get());
  auto owned = std::make_unique<PendingPeer>(this, std::move(fd), process.ok() ? process.value() : PeerProcess());
  PendingPeer* pending = owned.release();  // the list's now; End() takes it back
  pending_.PushBack(pending);
  ++pending_count_;
  Status good = process.ok() ? pending->Watch() : process.status();
  if (!good.ok()) {
    TurnAway(pending, good);
  } else if (pending_count_ > kPendingMax) {
    TurnAway(pending_.front(), Status::Overloaded("more than " + std::to_string(kPendingMax) +
                                                  " processes have connected and sent no hello"));
  }
}

void ShmListener::OnPacket(PendingPeer* pending) {
  const bool knocked = pending->nonce.has_value();
  std::optional<Result<Packet>> received =
      ReceiveControl(pending->socket.get(), knocked ? ShmControlKind::kHello : ShmControlKind::kKnock);
  if (!received.has_value()) return;
  Status good = received->status();
  if (good.ok()) {
    good = knocked ? OnHello(pending, std::move(*received).value()) : OnKnock(pending, received->value().message);
  }
  if (!good.ok()) TurnAway(pending, good);
}

Status ShmListener::OnKnock(PendingPeer* pending, const ShmControlMessage& knock) {
  ShmControlMessage ours;
  ours.kind = ShmControlKind::kKnock;
  ours.answer = knock.nonce;
  ours.nonce = SystemRandom64();
  pending->nonce = ours.nonce;
  return SendControl(pending->socket.get(), ours, nullptr);
}

// Good: the pending peer is gone.
Status ShmListener::OnHello(PendingPeer* pending, Packet hello) {
  if (hello.message.answer != pending->nonce)
    return Status::Corrupt("its hello does not answer our knock")
        .Next("run the same version of Fusewire in both tasks");
  FUSEWIRE_TRY(pending->process.CheckSender(hello.sender));
  std::unique_ptr<Segment> segment = FUSEWIRE_TRY(Segment::Attach(hello.files[0], hello.message.ring_bytes));
  hello.files[0].Close();
  const pid_t peer = pending->process.pid();
  const bool can_read = lend_ && CanReadOrLog(peer, hello.message.probe_address, hello.message.probe_word);
  ShmControlMessage welcome;
  welcome.kind = ShmControlKind::kWelcome;
  welcome.probe_address = ProbeAddress();
  welcome.probe_word = ProbeWord();
  FUSEWIRE_TRY(SendControl(pending->socket.get(), welcome, nullptr));
  auto origin = std::unique_ptr<ShmOrigin>(new ShmOrigin{std::move(hello), can_read, lend_});
  auto incoming = std::make_unique<ShmIncoming>(pending->TakeSocket(), std::move(segment), std::move(origin), peer);
  End(pending);
  on_incoming_(std::move(incoming));
  return Status::Ok();
}

void ShmListener::TurnAway(PendingPeer* pending, const Status& why) {
  uint64_t suppressed = 0;
  const bool gone = why.code() == Code::kUnavailable;  // it closed, or only looked whether we listen
  if (!gone && away_log_.Allow(home_.now_ns(), &suppressed)) {
    FUSEWIRE_LOG(kWarn, "listener %s does not share memory with process %d (%llu more in between): %s",
                 address_.ToString().c_str(), static_cast<int>(pending->process.pid()),
                 static_cast<unsigned long long>(suppressed), why.Explained().c_str());
  }
  End(pending);
}

void ShmListener::End(PendingPeer* pending) {
  FUSEWIRE_CHECK(pending_count_ > 0);
  FUSEWIRE_CHECK(pending->linked());
  pending->Unlink();
  --pending_count_;
  const std::unique_ptr<PendingPeer> ours(pending);
}

// ---- dialing ----

// The peer is on this machine only if an address of the host is one of this network namespace: that is the only proof.
void ShmDialing::OnNames(const Names& names) {
  last_error_ =
      names.ok() ? Status::Unavailable("the host is not this machine").Next("dial it over TCP") : names.status();
  const std::vector<std::string> none;
  for (const std::string& number : names.ok() ? names.value() : none) {
    SocketAddress address;
    if (!ParseNumeric(number, address_.port, &address)) continue;
    std::string own = NumberOf(address);
    if (own == "0.0.0.0") own = "127.0.0.1";
    if (own == "::") own = "::1";
    if (own == NumberOf(address) && !IsOwnAddress(address)) continue;
    if (number_.empty()) number_ = own;
    places_.push_back(SocketName(own, address_.port));
  }
  if (!places_.empty()) places_.push_back(SocketName(kEverywhere, address_.port));
  home_.Arm(&step_, 0);
}

void ShmDialing::TryNext() {
  FUSEWIRE_AT_HOME(home_);
  for (; next_ < places_.size(); ++next_) {
    Drop();
    Status connected = Connect();
    if (connected.ok()) return;
    // An error at one place says more than the absence of a listener at another.
    if (last_error_.code() == Code::kUnavailable || last_error_.ok()) last_error_ = std::move(connected);
    if (step_.armed()) return;
  }
  Finish(last_error_);
}

Status ShmDialing::Connect() {
  FUSEWIRE_CHECK(next_ < places_.size());
  fd_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (!fd_.valid()) {
    return Status::FromErrno(Code::kOverloaded, "socket", errno).Next("raise the limit of open files (ulimit -n)");
  }
  if (connect(fd_.get(), places_[next_].get(), places_[next_].length) != 0) {
    if (errno == EAGAIN) home_.Arm(&step_, kQueueFullNs);
    return Status::FromErrno(Code::kUnavailable, "connect", errno);
  }
  process_ = FUSEWIRE_TRY(PeerProcess::Of(fd_.get()));
  ShmControlMessage knock;
  knock.kind = ShmControlKind::kKnock;
  knock.nonce = nonce_ = SystemRandom64();
  FUSEWIRE_TRY(SendControl(fd_.get(), knock, nullptr));
  return Watch(EPOLLIN | EPOLLRDHUP);
}

Status ShmDialing::SayHello(uint64_t answer) {
  reactor::Doorbell* bell = FUSEWIRE_TRY(home_.OpenDoorbell());
  Fd file;
  std::unique_ptr<Segment> segment = FUSEWIRE_TRY(Segment::Make(kRingBytes, &file));
  connection_ = std::make_unique<ShmConnection>(home_, bell, std::move(segment), lend_,
                                                Address{number_, address_.port}.ToString());
  ShmControlMessage hello;
  hello.kind = ShmControlKind::kHello;
  hello.ring_bytes = kRingBytes;
  hello.bit = connection_->bit();
  hello.probe_address = ProbeAddress();
  hello.probe_word = ProbeWord();
  hello.answer = answer;
  const auto [rung, asleep, event] = bell->files();
  const int files[] = {file.get(), rung, asleep, event};
  return SendControl(fd_.get(), hello, files);
}

void ShmDialing::OnEvents(uint32_t) {
  const bool greeted = connection_ != nullptr;
  std::optional<Result<Packet>> received =
      ReceiveControl(fd_.get(), greeted ? ShmControlKind::kWelcome : ShmControlKind::kKnock);
  if (!received.has_value()) return;
  Status good = received->status();
  if (good.ok() && !greeted) good = TakeKnock(received->value());
  if (!good.ok()) {
    last_error_ = std::move(good);
    ++next_;
    TryNext();
    return;
  }
  if (greeted) TakeWelcome(received->value().message);
}

// It is proven now who listens: from here on, it gets our memory.
Status ShmDialing::TakeKnock(const Packet& knock) {
  if (knock.message.answer != nonce_)
    return Status::Corrupt("the listener's knock does not answer ours")
        .Next("run the same version of Fusewire in both tasks");
  FUSEWIRE_TRY(process_.CheckSender(knock.sender));
  return SayHello(knock.message.nonce);
}

void ShmDialing::TakeWelcome(const ShmControlMessage& welcome) {
  if (lend_ && CanReadOrLog(process_.pid(), welcome.probe_address, welcome.probe_word))
    connection_->SetLender(process_.pid());
  connection_->SetSocket(TakeSocket(), process_.pid());
  Succeed(std::move(connection_));
}

void ShmDialing::Drop() {
  connection_.reset();
  DialingInTurn::Drop();
}

class ShmTransport final : public Transport {
 public:
  explicit ShmTransport(bool lend) : resolver_(nullptr), lend_(lend) {}

  Result<std::unique_ptr<Listener>> Listen(reactor::Reactor& home, const Address& address,
                                           OnIncoming on_incoming) override {
    return ShmListener::Open(home, address, lend_, std::move(on_incoming));
  }

  std::unique_ptr<Dialing> Dial(reactor::Reactor& home, const Address& address, int64_t timeout_ns,
                                OnDialed on_dialed) override {
    auto dialing = std::make_unique<ShmDialing>(home, address, lend_, std::move(on_dialed));
    const bool is_here = address.host.empty() || address.host == "*";
    dialing->Start(&resolver_, is_here ? "localhost" : address.host, timeout_ns);
    return dialing;
  }
  bool HandsOver() const override { return true; }

 private:
  Resolver resolver_;
  const bool lend_;
};

}  // namespace

uint64_t HostId() {
  std::ifstream file("/proc/sys/kernel/random/boot_id");
  std::string boot;
  struct stat network = {};
  // Unix sockets with abstract names, by which processes meet, belong to it.
  if (!std::getline(file, boot) || boot.empty() || stat("/proc/thread-self/ns/net", &network) != 0) return 0;
  uint64_t id = 0;
  auto mix = [&id](uint64_t number) { id = Random(id ^ number).Next(); };
  for (const char letter : boot) mix(static_cast<uint8_t>(letter));
  mix(network.st_ino);
  return id == 0 ? 1 : id;
}

std::unique_ptr<Transport> MakeShm(bool lend) { return std::make_unique<ShmTransport>(lend); }

uint64_t SharedBytesWritten() { return BytesWrittenByAll(); }

// To the kernel, a sandbox or a security module, a child that reads our memory is like any other task that does. That
// we can read our own memory, or a child's, proves nothing.
bool MayLend() {
  const pid_t parent = getpid();
  const uint64_t address = ProbeAddress(), word = ProbeWord();
  const pid_t child = fork();
  if (child < 0) return false;
  if (child == 0) _exit(CanRead(parent, address, word) ? 0 : 1);
  int status = 0;
  pid_t ended;
  do {
    ended = waitpid(child, &status, 0);
  } while (ended < 0 && errno == EINTR);
  return ended == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

}  // namespace fusewire::transport
