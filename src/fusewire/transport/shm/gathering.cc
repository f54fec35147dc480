// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/shm/gathering.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <utility>

#include "fusewire/base/bytes.h"
#include "fusewire/base/check.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/random.h"
#include "fusewire/reactor/event_fd.h"
#include "fusewire/transport/shm/knock.h"
#include "fusewire/transport/shm/meeting.h"
#include "fusewire/transport/shm/passing.h"

namespace fusewire {
namespace transport {
namespace {

Status Phase(const Status& why) { return why.Phase("gathering the ranks of a host"); }
Status FromErrno(const char* call) { return Phase(Status::FromErrno(Code::kUnavailable, call, errno)); }

UnixAddress PlaceOf(const std::string& name) {
  UnixAddress place;
  place.storage.sun_family = AF_UNIX;
  // An abstract name begins with a zero.
  const size_t bytes = std::min(name.size(), sizeof(place.storage.sun_path) - 1);
  CopyBytes(Bytes(place.storage.sun_path + 1, bytes), ConstBytes(name.data(), bytes));
  place.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + bytes);
  return place;
}

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
  // 0: it is in a pid namespace that we cannot see.
  if (pid <= 0) return Phase(Status::Refused("a rank is in a pid namespace of its own"));
  Fd life(static_cast<int>(syscall(SYS_pidfd_open, pid, 0)));
  if (!life.valid()) return FromErrno("pidfd_open");
  return life;
}

Status SendFiles(int socket, const std::vector<int>& files) {
  const char byte = 0;
  if (SendPacket(socket, ConstBytes(&byte, 1), files.data(), files.size()) == 1) return Status::Ok();
  return FromErrno("sendmsg");
}

Result<std::vector<Fd>> ReceiveFiles(int socket, size_t count) {
  char byte = 0;
  PassedPacket packet = ReceivePacket(socket, Bytes(&byte, 1), kPassedFilesMax);
  if (packet.bytes < 0) return FromErrno("recvmsg");
  if (packet.bytes == 0) return Phase(Status::Unavailable("rank 0 closed the connection"));
  if (packet.files.size() != count || (packet.flags & MSG_CTRUNC) != 0) {
    return Phase(Status::Overloaded(std::to_string(packet.files.size()) + " of " + std::to_string(count) +
                                    " descriptors have come"))
        .Next("raise the limit of open files (ulimit -n)");
  }
  return std::move(packet.files);
}

}  // namespace

Result<std::unique_ptr<Gathering>> Gathering::Open() {
  std::unique_ptr<Gathering> gathering(new Gathering);
  gathering->name_ = SecretName();
  gathering->socket_ = Fd(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!gathering->socket_.valid()) return FromErrno("socket");
  const UnixAddress place = PlaceOf(gathering->name_);
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
  std::vector<Fd> sockets(static_cast<size_t>(count));
  all.lives.resize(static_cast<size_t>(count));
  Result<Fd> own = LifeLine(getpid());
  if (!own.ok()) return own.status();
  all.lives[0] = std::move(own).value();
  for (int missing = count - 1; missing > 0;) {
    FUSEWIRE_TRY(patience.WaitToRead(socket_.get()));
    Fd comer(accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (!comer.valid()) continue;
    Result<PeerProcess> process = CheckPeer(comer.get());
    if (!process.ok()) continue;  // the name is no secret to other users of this host
    FUSEWIRE_TRY(patience.WaitToRead(comer.get()));
    uint8_t bytes[kKnockBytes + 1];  // one more, so that a longer packet does not look like a knock
    const ssize_t got = recv(comer.get(), bytes, sizeof(bytes), MSG_DONTWAIT);
    if (got < 0) return FromErrno("recv");
    Result<Knock> knock = DecodeKnock(ConstBytes(bytes, static_cast<size_t>(got)), static_cast<uint32_t>(count));
    if (!knock.ok()) return Phase(knock.status());
    Fd& place = sockets[knock.value().number];
    if (place.valid()) return Phase(Status::Corrupt("rank " + std::to_string(knock.value().number) + " came twice"));
    Result<Fd> life = LifeLine(process.value().pid);
    if (!life.ok()) return life.status();
    all.lives[knock.value().number] = std::move(life).value();
    place = std::move(comer);
    --missing;
    FUSEWIRE_CHECK(missing >= 0);
  }
  std::vector<int> files = {file};
  for (const Fd& life : all.lives) files.push_back(life.get());
  FUSEWIRE_CHECK(files.size() == static_cast<size_t>(count) + 1);
  FUSEWIRE_CHECK(files.size() <= kPassedFilesMax);
  for (int number = 1; number < count; ++number)
    FUSEWIRE_TRY(SendFiles(sockets[static_cast<size_t>(number)].get(), files));
  all.file = Fd(fcntl(file, F_DUPFD_CLOEXEC, 0));
  if (!all.file.valid()) return FromErrno("fcntl");
  all.lives[0].Close();
  return all;
}

Result<Gathered> ComeTo(const std::string& name, int number, int count, int64_t deadline_ns,
                        reactor::CancelToken* cancel) {
  // The process that told the name need not accept: a connect that waits would have no deadline.
  Fd place(socket(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!place.valid()) return FromErrno("socket");
  const UnixAddress address = PlaceOf(name);
  // Rank 0 listens before it tells the name: if it is not met, it is in another network namespace.
  if (connect(place.get(), address.get(), address.length) != 0) return FromErrno("connect");
  Result<PeerProcess> host = CheckPeer(place.get());
  if (!host.ok()) return Phase(host.status());
  Knock knock;
  knock.number = static_cast<uint32_t>(number);
  knock.count = static_cast<uint32_t>(count);
  const auto packet = EncodeKnock(knock);
  if (send(place.get(), packet.data(), packet.size(), MSG_NOSIGNAL | MSG_DONTWAIT) != ssize_t{kKnockBytes})
    return FromErrno("send");
  FUSEWIRE_TRY(Patience(deadline_ns, cancel).WaitToRead(place.get()));
  Result<std::vector<Fd>> files = ReceiveFiles(place.get(), static_cast<size_t>(count) + 1);
  if (!files.ok()) return files.status();
  Gathered all;
  all.file = std::move(files.value()[0]);
  for (size_t i = 1; i < files.value().size(); ++i) all.lives.push_back(std::move(files.value()[i]));
  all.lives[static_cast<size_t>(number)].Close();
  return all;
}

}  // namespace transport
}  // namespace fusewire
