// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/gathering.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/reactor/poller.h"
#include "fusewire/transport/shm/control_message.h"
#include "fusewire/transport/shm/peer_process.h"

namespace fusewire::transport {
namespace {

Status Phase(const Status& why) { return why.Phase("gathering the ranks of a host"); }
Status FromErrno(const char* call) { return Phase(Status::FromErrno(Code::kUnavailable, call, errno)); }

std::string SecretName() {
  static constexpr char kDigits[] = "0123456789abcdef";
  std::string name = "fusewire-gathering-";
  for (int half = 0; half < 2; ++half) {
    uint64_t word = SystemRandom64();
    for (int digit = 0; digit < 16; ++digit, word >>= 4) name += kDigits[word & 15];
  }
  return name;
}

// Waits for sockets, until a deadline or a cancel.
class Patience {
 public:
  Patience(int64_t deadline_ns, reactor::CancelToken* cancel)
      : deadline_ns_(deadline_ns), cancelled_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)), hook_(cancel, [this] {
          if (cancelled_.valid()) reactor::WriteEvent(cancelled_.get());
        }) {}

  // Until the socket can be read.
  Status WaitToRead(int socket) const {
    if (!cancelled_.valid()) return FromErrno("eventfd");
    Clock* const clock = Clock::Real();
    while (true) {
      std::array<pollfd, 2> waits = {pollfd{socket, POLLIN, 0}, pollfd{cancelled_.get(), POLLIN, 0}};
      const int64_t left_ns = std::clamp<int64_t>(deadline_ns_ - clock->NowNs(), 0, kPollNsMax);
      const int ready =
          poll(waits.data(), waits.size(), static_cast<int>((left_ns + kMillisecondNs - 1) / kMillisecondNs));
      if (ready < 0 && errno != EINTR) return FromErrno("poll");
      if (ready > 0 && waits[0].revents != 0) return Status::Ok();
      if (ready > 0) return Phase(Status::Cancelled("the gathering was called off"));
      if (left_ns <= 0) return Phase(Status::Timeout("a rank of this host has not come by the deadline"));
    }
  }

 private:
  static constexpr int64_t kPollNsMax = 3600 * kSecondNs;  // poll counts milliseconds in an int
  const int64_t deadline_ns_;
  const Fd cancelled_;
  const reactor::CancelHook hook_;
};

Result<Fd> LifeLine(pid_t pid) {
  Fd life(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!life.valid()) return FromErrno("pidfd_open");
  return life;
}

Status SendFiles(int socket, uint64_t answer, const std::vector<int>& files) {
  const ConstBytes packet(&answer, sizeof(answer));
  if (SendPacket(socket, packet, files.data(), files.size()) == ssize_t{sizeof(answer)}) return Status::Ok();
  return FromErrno("sendmsg");
}

Result<std::vector<Fd>> ReceiveFiles(int socket, const PeerProcess& host, uint64_t nonce, size_t count) {
  uint64_t answer = 0;
  PassedPacket packet = ReceivePacket(socket, Bytes(&answer, sizeof(answer)), kPassedFilesMax);
  if (packet.bytes < 0) return FromErrno("recvmsg");
  if (packet.bytes == 0) return Phase(Status::Unavailable("rank 0 closed the connection"));
  if (packet.bytes != ssize_t{sizeof(answer)} || answer != nonce)
    return Phase(Status::Corrupt("rank 0 does not answer our knock"));
  FUSEWIRE_TRY(host.CheckSender(packet.sender));
  if (packet.files.size() != count || (packet.flags & MSG_CTRUNC) != 0) {
    return Phase(Status::Overloaded(std::to_string(packet.files.size()) + " of " + std::to_string(count) +
                                    " descriptors have come"))
        .Next("raise the limit of open files (ulimit -n)");
  }
  return std::move(packet.files);
}

Status SendKnock(int socket, const Knock& knock) {
  const auto packet = EncodeKnock(knock);
  if (SendPacket(socket, ConstBytes(packet.data(), packet.size()), nullptr, 0) == ssize_t{kKnockBytes})
    return Status::Ok();
  return FromErrno("sendmsg");
}

struct Knocked {
  Knock knock;
  pid_t sender = 0;
};
Result<Knocked> ReceiveKnock(int socket, uint32_t count) {
  uint8_t bytes[kKnockBytes + 1];  // one more, so that a longer packet does not look like a knock
  const PassedPacket packet = ReceivePacket(socket, Bytes(bytes, sizeof(bytes)), 0);
  if (packet.bytes < 0) return FromErrno("recvmsg");
  if (packet.bytes == 0) return Phase(Status::Unavailable("the rank at the other end closed the connection"));
  Result<Knock> knock = DecodeKnock(ConstBytes(bytes, static_cast<size_t>(packet.bytes)), count);
  if (!knock.ok()) return Phase(knock.status());
  return Knocked{knock.value(), packet.sender};
}

// One of the others, at its host.
struct Comer {
  Fd socket, life;
  uint32_t number = 0;
  uint64_t nonce = 0;
};

Result<Comer> Admit(Fd socket, const PeerProcess& process, uint32_t count, const Patience& patience) {
  Comer comer;
  comer.life = FUSEWIRE_TRY(LifeLine(process.pid()));
  FUSEWIRE_TRY(patience.WaitToRead(socket.get()));
  const Knocked first = FUSEWIRE_TRY(ReceiveKnock(socket.get(), count));
  Knock ours;
  ours.count = count;
  ours.nonce = SystemRandom64();
  ours.answer = comer.nonce = first.knock.nonce;
  FUSEWIRE_TRY(SendKnock(socket.get(), ours));
  FUSEWIRE_TRY(patience.WaitToRead(socket.get()));
  const Knocked second = FUSEWIRE_TRY(ReceiveKnock(socket.get(), count));
  if (second.knock.answer != ours.nonce) return Phase(Status::Corrupt("a rank's second knock does not answer ours"));
  FUSEWIRE_TRY(process.CheckSender(second.sender));
  comer.number = first.knock.number;
  comer.socket = std::move(socket);
  return comer;
}

Status WrongKnock(const std::string& what) {
  return Status::Corrupt("the process at the other end is not a rank of this gathering: " + what)
      .Next("run the same version of Fusewire in all ranks");
}

}  // namespace

Result<std::unique_ptr<Gathering>> Gathering::Open() {
  std::unique_ptr<Gathering> gathering(new Gathering);
  gathering->name_ = SecretName();
  gathering->socket_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!gathering->socket_.valid()) return FromErrno("socket");
  const UnixAddress place = AbstractAddress(gathering->name_);
  if (bind(gathering->socket_.get(), place.get(), place.length) != 0) return FromErrno("bind");
  if (listen(gathering->socket_.get(), kGatheringMax) != 0) return FromErrno("listen");
  return gathering;
}

Result<Gathered> Gathering::Hand(int file, int count, int64_t deadline_ns, reactor::CancelToken* cancel) {
  if (count < 1 || count > kGatheringMax)
    return Phase(Status::Invalid("the count of ranks is " + std::to_string(count) + ", and must be from 1 to " +
                                 std::to_string(kGatheringMax)));
  const Patience patience(deadline_ns, cancel);
  Gathered all;
  std::vector<Comer> comers(static_cast<size_t>(count));
  comers[0].life = FUSEWIRE_TRY(LifeLine(getpid()));
  for (int missing = count - 1; missing > 0;) {
    FUSEWIRE_TRY(patience.WaitToRead(socket_.get()));
    Fd socket(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!socket.valid()) continue;
    const Result<PeerProcess> process = PeerProcess::Of(socket.get());
    if (!process.ok()) continue;
    Comer comer = FUSEWIRE_TRY(Admit(std::move(socket), process.value(), static_cast<uint32_t>(count), patience));
    Comer& place = comers[comer.number];
    if (place.life.valid()) return Phase(Status::Corrupt("two processes came as one rank"));
    place = std::move(comer);
    --missing;
    FUSEWIRE_CHECK(missing >= 0);
  }
  std::vector<int> files = {file};
  for (const Comer& comer : comers) files.push_back(comer.life.get());
  FUSEWIRE_CHECK(files.size() == static_cast<size_t>(count) + 1);
  FUSEWIRE_CHECK(files.size() <= kPassedFilesMax);
  for (const Comer& comer : comers) {
    if (comer.socket.valid()) FUSEWIRE_TRY(SendFiles(comer.socket.get(), comer.nonce, files));
  }
  all.file = Fd(fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!all.file.valid()) return FromErrno("fcntl");
  comers[0].life.Close();
  for (Comer& comer : comers) all.lives.push_back(std::move(comer.life));
  return all;
}

Result<Gathered> ComeTo(const std::string& name, int number, int count, int64_t deadline_ns,
                        reactor::CancelToken* cancel) {
  // The process that told the name need not accept: a connect that waits would have no deadline.
  Fd place(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!place.valid()) return FromErrno("socket");
  const UnixAddress address = AbstractAddress(name);
  // Rank 0 listens before it tells the name: if nothing listens there, it is in another network namespace.
  if (connect(place.get(), address.get(), address.length) != 0) return FromErrno("connect");
  const Result<PeerProcess> host = PeerProcess::Of(place.get());
  if (!host.ok()) return Phase(host.status());
  const Patience patience(deadline_ns, cancel);
  Knock ours;
  ours.number = static_cast<uint32_t>(number);
  ours.count = static_cast<uint32_t>(count);
  ours.nonce = SystemRandom64();
  FUSEWIRE_TRY(SendKnock(place.get(), ours));
  FUSEWIRE_TRY(patience.WaitToRead(place.get()));
  const Knocked answer = FUSEWIRE_TRY(ReceiveKnock(place.get(), ours.count));
  ours.answer = answer.knock.nonce;
  FUSEWIRE_TRY(SendKnock(place.get(), ours));
  FUSEWIRE_TRY(patience.WaitToRead(place.get()));
  std::vector<Fd> files =
      FUSEWIRE_TRY(ReceiveFiles(place.get(), host.value(), ours.nonce, static_cast<size_t>(count) + 1));
  Gathered all;
  all.file = std::move(files[0]);
  for (size_t i = 1; i < files.size(); ++i) all.lives.push_back(std::move(files[i]));
  all.lives[static_cast<size_t>(number)].Close();
  return all;
}

// ---- knocks ----

std::array<uint8_t, kKnockBytes> EncodeKnock(const Knock& knock) {
  std::array<uint8_t, kKnockBytes> packet;
  CopyBytes(Bytes(packet.data(), packet.size()), ConstBytes(&knock, sizeof(knock)));
  return packet;
}

Result<Knock> DecodeKnock(ConstBytes packet, uint32_t count) {
  if (packet.size != kKnockBytes) return WrongKnock("its knock has " + std::to_string(packet.size) + " bytes");
  Knock knock;
  CopyBytes(Bytes(&knock, sizeof(knock)), packet);
  if (knock.magic != Knock().magic) return WrongKnock("its knock begins with other bytes");
  if (knock.count != count) return WrongKnock("it counts " + std::to_string(knock.count) + " ranks");
  if (knock.number >= count) return WrongKnock("its number is " + std::to_string(knock.number));
  return knock;
}

}  // namespace fusewire::transport
