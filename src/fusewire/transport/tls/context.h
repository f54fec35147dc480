// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// A task's certificate and its authorities, as files say; files that change are read again for new connections.
// Home: any thread. Owns: OpenSSL's context. Fails: Load, with the file and the reason; if files that have changed
// cannot be read, the old ones stay in force, and one log line says so.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "fusewire/base/bytes.h"
#include "fusewire/base/clock.h"
#include "fusewire/base/mutex.h"
#include "fusewire/base/status.h"
#include "fusewire/base/unique_function.h"
#include "fusewire/transport/layer_session.h"
#include "fusewire/transport/protection.h"
#include "fusewire/transport/tls/library.h"

namespace fusewire::transport {

#if FUSEWIRE_HAS_TLS

// One end of a TLS 1.3 connection. Owns the SSL object. Fails once, for good. kRefused: a certificate does not fit;
// kCorrupt: the peer's bytes are not TLS, or were changed on their way; kUnavailable: the peer has closed.
class TlsSession final : public Session {
 public:
  // The SSL object knows its role. It is made at once, or when the first bytes have come: it has tens of KiB, which a
  // connection that says nothing does not get.
  using MakeSsl = UniqueFunction<Result<SSL*>()>;
  TlsSession(const TlsLibrary& library, SSL* ssl);
  TlsSession(const TlsLibrary& library, MakeSsl make_ssl);
  ~TlsSession() override;

  const char* wire() const override { return "tls"; }
  Status Handshake() override;
  Result<size_t> Read(Bytes into) override;
  Status Write(ConstBytes said) override;
  // RFC 5705 and 8446: derived from the keys of both ends.
  std::string Binding() override;
  void Shutdown() override;

 private:
  friend struct TlsBytes;
  void Begin(SSL* ssl);
  Status Fail(const char* phase, int result);

  const TlsLibrary& library_;
  MakeSsl make_ssl_;  // until ssl_ is there
  SSL* ssl_ = nullptr;
};

// Shared: connections that are being made, and those whose handshake has not begun, outlive their transport.
class TlsContext : public std::enable_shared_from_this<TlsContext> {
 public:
  // shared_ptr: as above.
  static Result<std::shared_ptr<TlsContext>> Load(TlsOptions options, Clock* clock = Clock::Real());
  ~TlsContext();
  TlsContext(const TlsContext&) = delete;
  TlsContext& operator=(const TlsContext&) = delete;

  // For a connection that was dialled, or that has come.
  Result<std::unique_ptr<Session>> NewSession(bool is_dialled);
  // Whose it is, and for how long; kRefused: its time is over.
  Result<std::string> DescribeCertificate();

 private:
  TlsContext(const TlsLibrary& library, TlsOptions options, Clock* clock, SSL_CTX* ssl);
  Result<SSL*> NewSsl(bool is_dialled);
  static Result<SSL_CTX*> Read(const TlsLibrary& library, const TlsOptions& options);
  void ReadAgain() FUSEWIRE_REQUIRES(mutex_);
  std::string Versions() const;

  const TlsLibrary& library_;
  const TlsOptions options_;
  Clock* const clock_;
  Mutex mutex_;  // connections of all homes begin here
  SSL_CTX* ssl_ FUSEWIRE_GUARDED_BY(mutex_);
  std::string versions_ FUSEWIRE_GUARDED_BY(mutex_);  // of the files that were read, or tried
  int64_t looked_ns_ FUSEWIRE_GUARDED_BY(mutex_) = 0;
};
// shared_ptr: as above.
using TlsContextPtr = std::shared_ptr<TlsContext>;

#endif

}  // namespace fusewire::transport
