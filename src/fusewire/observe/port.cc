// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/observe/port.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <ctime>
#include <utility>

namespace fusewire::observe {
namespace {

constexpr int kBacklog = 64;
constexpr size_t kReadBytes = 4096;
constexpr int kReadsMax = 16;             // of what follows a request
constexpr int kKernelBytes = 128 * 1024;  // of an answer, which the kernel doubles
// A well-behaved client sends its request at once, and reads a page in less than a second.
constexpr int64_t kSilentNs = 50 * kMillisecondNs, kReadingNs = kSecondNs;
constexpr int64_t kRestNs = 50 * kMillisecondNs;

bool LacksDescriptors(int error) { return error == EMFILE || error == ENFILE || error == ENOBUFS || error == ENOMEM; }

int OpenSpare() { return open("/dev/null", O_RDONLY | O_CLOEXEC); }

int64_t NowMs() {
  timespec now{};
  std::timespec_get(&now, TIME_UTC);
  return int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

}  // namespace

Result<std::unique_ptr<Port>> Port::Open(Options options) {
  SocketName name;
  if (!name.Set(options.host, options.port)) return Status::Invalid("\"" + options.host + "\" is not an address");
  const std::string where = options.host + ":" + std::to_string(options.port);
  const int listener = socket(name.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (listener < 0) return Status::FromErrno(Code::kUnavailable, "socket", errno);
  const int on = 1;
  // After a restart, connections of the process before may still be closing.
  (void)setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
  // What the kernel still has of an answer after its connection has been closed, and for how long. Connections have it
  // from the listener.
  const auto patience_ms = static_cast<unsigned>(options.patience_ns / kMillisecondNs);
  (void)setsockopt(listener, SOL_SOCKET, SO_SNDBUF, &kKernelBytes, sizeof(kKernelBytes));
  (void)setsockopt(listener, IPPROTO_TCP, TCP_USER_TIMEOUT, &patience_ms, sizeof(patience_ms));
  const char* call = "bind";
  bool is_open = bind(listener, reinterpret_cast<sockaddr*>(&name.storage), name.size) == 0;
  if (is_open) {
    call = "listen";
    is_open = listen(listener, kBacklog) == 0;
  }
  socklen_t size = sizeof(name.storage);
  if (is_open) {
    call = "getsockname";
    is_open = getsockname(listener, reinterpret_cast<sockaddr*>(&name.storage), &size) == 0;
  }
  const int wake = is_open ? eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK) : -1;
  if (is_open && wake < 0) call = "eventfd";
  if (wake < 0) {
    const int error = errno;
    close(listener);
    return Status::FromErrno(Code::kUnavailable, call, error).Phase("opening the status port at " + where);
  }
  return std::unique_ptr<Port>(new Port(std::move(options), listener, wake, name.port()));
}

Port::Port(Options options, int listener, int wake, uint16_t port)
    : options_(std::move(options)),
      listener_(listener),
      wake_(wake),
      port_(port),
      access_(options_.secret, NowMs()),
      connections_(kConnectionsMax),
      spare_(OpenSpare()) {
  for (auto& socket : sockets_) socket.store(-1);
  thread_ = std::thread([this] { Work(); });
}

Port::~Port() {
  ends_.store(true);
  const uint64_t one = 1;
  while (write(wake_, &one, sizeof(one)) < 0 && errno == EINTR) {
  }
  thread_.join();
  for (Connection& connection : connections_) Close(&connection);
  close(listener_);
  close(wake_);
  if (spare_.load() >= 0) close(spare_.load());
}

void Port::CloseInChild() {
  close(listener_);
  close(wake_);
  for (const auto& socket : sockets_) {
    if (socket.load() >= 0) close(socket.load());
  }
  if (spare_.load() >= 0) close(spare_.load());
}

void Port::Work() {
  pthread_setname_np(pthread_self(), "fusewire/status");
  std::vector<pollfd> waits;
  while (!ends_.load()) {
    if (spare_.load() < 0) spare_.store(OpenSpare());
    const int64_t now_ns = Clock::Real()->NowNs();
    if (options_.turn != nullptr && turns_at_ns_ <= now_ns) {
      options_.turn();
      turns_at_ns_ = AddNs(now_ns, options_.turn_ns);
    }
    int64_t until_ns = options_.turn != nullptr ? turns_at_ns_ : kForeverNs;
    waits.assign(1, {wake_, POLLIN, 0});
    for (Connection& connection : connections_) {
      if (connection.socket < 0) continue;
      const int64_t end_ns = AddNs(connection.begun_ns, options_.patience_ns);
      if (end_ns <= now_ns) {
        Close(&connection);
        continue;
      }
      until_ns = std::min(until_ns, end_ns);
      waits.push_back({connection.socket, static_cast<short>(connection.out.empty() ? POLLIN : POLLOUT), 0});
    }
    if (rests_until_ns_ <= now_ns) {
      waits.push_back({listener_, POLLIN, 0});
    } else {
      until_ns = std::min(until_ns, rests_until_ns_);
    }
    const int64_t left_ms = until_ns == kForeverNs ? -1 : (until_ns - now_ns) / kMillisecondNs + 1;
    if (poll(waits.data(), waits.size(), static_cast<int>(left_ms)) <= 0) continue;
    for (const pollfd& ready : waits) {
      if (ready.revents == 0 || ready.fd == wake_) continue;
      if (ready.fd == listener_) {
        Accept(Clock::Real()->NowNs());
        continue;
      }
      for (Connection& connection : connections_) {
        if (connection.socket != ready.fd) continue;
        if (connection.out.empty()) {
          Read(&connection);
        } else {
          Write(&connection);
        }
        break;
      }
    }
  }
}

// After the others of the turn: a client that has sent its request is not silent.
void Port::Accept(int64_t now_ns) {
  auto place = connections_.begin();
  const auto find = [&] {
    place =
        std::find_if(connections_.begin(), connections_.end(), [](const Connection& each) { return each.socket < 0; });
    return place != connections_.end();
  };
  int socket = -1;
  if (find() || (MakeRoom(now_ns) && find())) {
    socket = TakeNext();
    if (socket < 0 && LacksDescriptors(errno) && MakeRoom(now_ns)) socket = TakeNext();
    if (socket < 0 && !LacksDescriptors(errno)) return;
  }
  if (socket < 0) {  // the next waits in the kernel's queue
    rests_until_ns_ = AddNs(now_ns, kRestNs);
    return;
  }
  place->socket = socket;
  place->begun_ns = now_ns;
  sockets_[place - connections_.begin()].store(socket);
  Read(&*place);  // most have sent their request already
}

// Negative: errno says why.
int Port::TakeNext() {
  constexpr int kFlags = SOCK_CLOEXEC | SOCK_NONBLOCK;
  const int socket = accept4(listener_, nullptr, nullptr, kFlags);
  if (socket >= 0 || !LacksDescriptors(errno) || spare_.load() < 0) return socket;
  close(spare_.exchange(-1));
  return accept4(listener_, nullptr, nullptr, kFlags);
}

// Whether a connection has given way: the oldest silent one, or else the oldest that has not read its answer.
bool Port::MakeRoom(int64_t now_ns) {
  Connection* last = nullptr;
  for (Connection& each : connections_) {
    const bool is_silent = each.out.empty();
    if (each.socket < 0 || AddNs(each.begun_ns, is_silent ? kSilentNs : kReadingNs) > now_ns) continue;
    if (last == nullptr || is_silent > last->out.empty() ||
        (is_silent == last->out.empty() && each.begun_ns < last->begun_ns))
      last = &each;
  }
  if (last != nullptr) Close(last);
  return last != nullptr;
}

// The oldest of those who have not read their answers give way to the next answer.
void Port::MakeRoomFor(size_t bytes) {
  for (;;) {
    size_t waiting = bytes;
    Connection* oldest = nullptr;
    for (Connection& each : connections_) {
      if (each.out.empty()) continue;
      waiting += each.out.size();
      if (oldest == nullptr || each.begun_ns < oldest->begun_ns) oldest = &each;
    }
    if (oldest == nullptr || waiting <= kWaitingBytesMax) return;
    Close(oldest);
  }
}

void Port::Read(Connection* connection) {
  char bytes[kReadBytes];
  const ssize_t got = recv(connection->socket, bytes, sizeof(bytes), 0);
  if (got < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (got <= 0) {
    Close(connection);
    return;
  }
  connection->in.append(bytes, static_cast<size_t>(got));
  if (!IsComplete(connection->in)) return;
  Request request;
  Refusal refusal = ReadRequest(connection->in, &request);
  if (refusal.status == 0) refusal = access_.Check(request, HereOf(connection->socket), NowMs());
  Answer answer;
  if (refusal.status == 0) {
    answer = options_.answer(request);
  } else {
    answer.status = refusal.status;
    answer.body = refusal.reason + "\n";
  }
  std::string out = WriteAnswer(answer, request.is_head);
  MakeRoomFor(out.size());
  connection->in = std::string();
  connection->out = std::move(out);
  Write(connection);
}

Here Port::HereOf(int socket) const {
  Here here;
  SocketName name;
  if (options_.secret.empty() || getsockname(socket, reinterpret_cast<sockaddr*>(&name.storage), &name.size) != 0)
    return here;
  here.address = name.ToString();
  if (options_.hosts == nullptr) return here;
  for (const std::string& host : options_.hosts()) here.others.push_back(PlaceOf(host + ":" + std::to_string(port_)));
  return here;
}

void Port::Write(Connection* connection) {
  const char* rest = connection->out.data() + connection->sent;
  const size_t size = connection->out.size() - connection->sent;
  const ssize_t put = send(connection->socket, rest, size, MSG_NOSIGNAL);
  if (put < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (put > 0) connection->sent += static_cast<size_t>(put);
  if (put > 0 && connection->sent < connection->out.size()) return;
  // What the peer has sent and nobody has read would make the kernel drop the end of the answer.
  shutdown(connection->socket, SHUT_WR);
  char bytes[kReadBytes];
  for (int i = 0; i < kReadsMax && recv(connection->socket, bytes, sizeof(bytes), 0) > 0; ++i) {
  }
  if (put > 0) connection->out.clear();
  Close(connection);
}

void Port::Close(Connection* connection) {
  if (connection->socket < 0) return;
  sockets_[connection - connections_.data()].store(-1);
  if (!connection->out.empty()) {
    const linger now{1, 0};  // the kernel forgets the rest of the answer, too
    (void)setsockopt(connection->socket, SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  }
  close(connection->socket);
  *connection = Connection();
}

}  // namespace fusewire::observe
