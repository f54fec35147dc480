// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tls/session.h"

#include <algorithm>
#include <climits>
#include <utility>

#include "fusewire/base/check.h"

namespace fusewire::transport {

#if FUSEWIRE_HAS_TLS

// The functions of the BIO over which OpenSSL reads and writes.
struct TlsBytes {
  static TlsSession* SessionOf(BIO* bio) {
    return static_cast<TlsSession*>(TlsLibrary::The().value()->BIO_get_data(bio));
  }

  static int Read(BIO* bio, char* to, int size) {
    const TlsLibrary& library = *TlsLibrary::The().value();
    library.BIO_clear_flags(bio, BIO_FLAGS_RWS | BIO_FLAGS_SHOULD_RETRY);
    const size_t taken = SessionOf(bio)->Take(Bytes(to, static_cast<size_t>(std::max(size, 0))));
    if (taken > 0) return static_cast<int>(taken);
    library.BIO_set_flags(bio, BIO_FLAGS_READ | BIO_FLAGS_SHOULD_RETRY);
    return -1;
  }

  static int Write(BIO* bio, const char* from, int size) {
    SessionOf(bio)->Put(ConstBytes(from, static_cast<size_t>(std::max(size, 0))));
    return size;
  }

  static long Control(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

  static BIO_METHOD* Make() {
    const TlsLibrary& library = *TlsLibrary::The().value();
    BIO_METHOD* method = library.BIO_meth_new(library.BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "fusewire");
    FUSEWIRE_CHECK(method != nullptr);
    library.BIO_meth_set_read(method, &Read);
    library.BIO_meth_set_write(method, &Write);
    library.BIO_meth_set_ctrl(method, &Control);
    return method;
  }
};

TlsSession::TlsSession(const TlsLibrary& library, SSL* ssl) : library_(library) { Begin(ssl); }

TlsSession::TlsSession(const TlsLibrary& library, MakeSsl make_ssl)
    : library_(library), make_ssl_(std::move(make_ssl)) {}

TlsSession::~TlsSession() {
  if (ssl_ != nullptr) library_.SSL_free(ssl_);
}

void TlsSession::Begin(SSL* ssl) {
  static BIO_METHOD* const method = TlsBytes::Make();
  ssl_ = ssl;
  BIO* bio = library_.BIO_new(method);
  FUSEWIRE_CHECK(bio != nullptr);
  library_.BIO_set_data(bio, this);
  library_.BIO_set_init(bio, 1);
  library_.SSL_set_bio(ssl_, bio, bio);
}

Status TlsSession::Handshake() {
  FUSEWIRE_DCHECK(!is_ready());
  if (ssl_ == nullptr) {
    if (Peek(1).empty()) return Status::Ok();
    Result<SSL*> made = make_ssl_();
    if (!made.ok()) return made.status();
    Begin(made.value());
    make_ssl_ = nullptr;
  }
  library_.ERR_clear_error();
  const int result = library_.SSL_do_handshake(ssl_);
  if (result == 1) {
    SetReady();
    return Status::Ok();
  }
  return Fail("TLS handshake", result);
}

Result<size_t> TlsSession::Read(Bytes into) {
  FUSEWIRE_DCHECK(is_ready());
  library_.ERR_clear_error();
  const int result = library_.SSL_read(ssl_, into.data, static_cast<int>(std::min<size_t>(into.size, INT_MAX)));
  if (result > 0) return static_cast<size_t>(result);
  FUSEWIRE_TRY(Fail("TLS", result));
  return size_t{0};
}

Status TlsSession::Write(ConstBytes said) {
  FUSEWIRE_DCHECK(is_ready());
  while (!said.empty()) {
    library_.ERR_clear_error();
    const int result = library_.SSL_write(ssl_, said.data, static_cast<int>(std::min<size_t>(said.size, INT_MAX)));
    if (result <= 0) {
      FUSEWIRE_TRY(Fail("TLS", result));
      return Status::Internal("TLS takes no more, although all that it writes has room");
    }
    said = said.From(static_cast<size_t>(result));
  }
  return Status::Ok();
}

std::string TlsSession::Binding() {
  FUSEWIRE_DCHECK(is_ready());
  constexpr char kLabel[] = "EXPORTER-fusewire-greeting";
  std::string binding(32, '\0');
  library_.ERR_clear_error();
  const int result = library_.SSL_export_keying_material(ssl_, reinterpret_cast<uint8_t*>(binding.data()),
                                                         binding.size(), kLabel, sizeof(kLabel) - 1, nullptr, 0, 0);
  FUSEWIRE_CHECK(result == 1);  // without it, a proof would say less than it seems to
  return binding;
}

void TlsSession::Shutdown() {
  if (!is_ready()) return;
  library_.ERR_clear_error();
  library_.SSL_shutdown(ssl_);
}

// Ok if only more bytes are wanted.
Status TlsSession::Fail(const char* phase, int result) {
  const int kind = library_.SSL_get_error(ssl_, result);
  if (kind == SSL_ERROR_WANT_READ) return Status::Ok();
  if (kind == SSL_ERROR_ZERO_RETURN) {
    return Status::Unavailable("the peer closed the connection")
        .Phase(phase)
        .Next("check that the peer is running and reachable");
  }
  const unsigned long error = library_.LastError();
  const char* words = library_.ERR_reason_error_string(error);
  const std::string reason = words == nullptr ? "no reason was given" : words;
  const long verified = library_.SSL_get_verify_result(ssl_);
  if (!is_ready() && verified != X509_V_OK) {
    return Status::Refused(std::string("the peer's certificate: ") + library_.X509_verify_cert_error_string(verified))
        .Phase(phase)
        .Next("check FUSEWIRE_TLS_CA here and FUSEWIRE_TLS_CERT there");
  }
  if (ERR_GET_REASON(error) > SSL_AD_REASON_OFFSET) {
    return Status::Refused("the peer refuses this task's certificate, or TLS itself: " + reason)
        .Phase(phase)
        .Next("check FUSEWIRE_TLS_CERT here and FUSEWIRE_TLS_CA there");
  }
  return Status::Corrupt(reason).Phase(phase).Next(
      is_ready() ? "check what is between the two hosts: bytes were changed on their way"
                 : "check that the peer has the FUSEWIRE_TLS settings as well");
}

#endif

}  // namespace fusewire::transport
