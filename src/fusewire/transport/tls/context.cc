// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tls/context.h"

#include <sys/stat.h>

#include <algorithm>
#include <climits>
#include <utility>

#include "fusewire/base/check.h"
#include "fusewire/base/log.h"
#include "fusewire/transport/layer_connection.h"
#include "fusewire/transport/transports.h"

namespace fusewire::transport {

#if FUSEWIRE_HAS_TLS
namespace {

constexpr size_t kSessionBytes = 80 * 1024;  // as tests/attack measures it, with its connection

// All that TLS 1.3 has to have, the quickest first.
constexpr char kCiphers[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr int64_t kLookNs = kSecondNs;  // at the files, at most so often

Status Wrong(const TlsLibrary& library, const char* setting, const std::string& file, const char* what) {
  const char* words = library.ERR_reason_error_string(library.LastError());
  return Status::Invalid(std::string(setting) + " is \"" + file + "\": " + what +
                         (words == nullptr ? "" : std::string(": ") + words))
      .Next("name a file in PEM that this user can read");
}

// OpenSSL must not ask for a password at the terminal.
int NoPassword(char*, int, int, void*) { return 0; }

// Changes with the file's content, also where a link leads elsewhere.
std::string VersionOf(const std::string& file) {
  struct stat about = {};
  if (stat(file.c_str(), &about) != 0) return "none;";
  return std::to_string(about.st_dev) + "," + std::to_string(about.st_ino) + "," + std::to_string(about.st_size) + "," +
         std::to_string(about.st_mtim.tv_sec) + "," + std::to_string(about.st_mtim.tv_nsec) + ";";
}

}  // namespace

Result<TlsContextPtr> TlsContext::Load(TlsOptions options, Clock* clock) {
  const TlsLibrary* library = FUSEWIRE_TRY(TlsLibrary::The());
  SSL_CTX* ssl = FUSEWIRE_TRY(Read(*library, options));
  return TlsContextPtr(std::unique_ptr<TlsContext>(new TlsContext(*library, std::move(options), clock, ssl)));
}

TlsContext::TlsContext(const TlsLibrary& library, TlsOptions options, Clock* clock, SSL_CTX* ssl)
    : library_(library), options_(std::move(options)), clock_(clock), ssl_(ssl), versions_(Versions()) {}

TlsContext::~TlsContext() { library_.SSL_CTX_free(ssl_); }

Result<SSL_CTX*> TlsContext::Read(const TlsLibrary& library, const TlsOptions& options) {
  library.ERR_clear_error();
  std::unique_ptr<SSL_CTX, decltype(library.SSL_CTX_free)> made(library.SSL_CTX_new(library.TLS_method()),
                                                                library.SSL_CTX_free);
  if (made == nullptr) return Status::Overloaded("OpenSSL cannot make a context");
  SSL_CTX* ssl = made.get();
  library.SSL_CTX_ctrl(ssl, SSL_CTRL_SET_MIN_PROTO_VERSION, TLS1_3_VERSION, nullptr);
  if (library.SSL_CTX_set_ciphersuites(ssl, kCiphers) != 1) return Status::Internal("OpenSSL has none of our ciphers");
  library.SSL_CTX_ctrl(ssl, SSL_CTRL_MODE, SSL_MODE_RELEASE_BUFFERS, nullptr);
  // A session is not resumed: connections live as long as tasks do, and a ticket would be written after the handshake.
  library.SSL_CTX_ctrl(ssl, SSL_CTRL_SET_SESS_CACHE_MODE, SSL_SESS_CACHE_OFF, nullptr);
  library.SSL_CTX_set_num_tickets(ssl, 0);
  library.SSL_CTX_set_default_passwd_cb(ssl, &NoPassword);
  library.SSL_CTX_set_verify(ssl, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
  if (library.SSL_CTX_use_certificate_chain_file(ssl, options.certificate.c_str()) != 1)
    return Wrong(library, "FUSEWIRE_TLS_CERT", options.certificate, "no certificate can be read from it");
  if (library.SSL_CTX_use_PrivateKey_file(ssl, options.key.c_str(), SSL_FILETYPE_PEM) != 1)
    return Wrong(library, "FUSEWIRE_TLS_KEY", options.key, "no key without a password can be read from it");
  if (library.SSL_CTX_check_private_key(ssl) != 1)
    return Wrong(library, "FUSEWIRE_TLS_KEY", options.key, "it is not the key of the certificate");
  if (library.SSL_CTX_load_verify_file(ssl, options.authorities.c_str()) != 1)
    return Wrong(library, "FUSEWIRE_TLS_CA", options.authorities, "no certificates can be read from it");
  return made.release();
}

std::string TlsContext::Versions() const {
  return VersionOf(options_.certificate) + VersionOf(options_.key) + VersionOf(options_.authorities);
}

void TlsContext::ReadAgain() {
  const int64_t now_ns = clock_->NowNs();
  if (now_ns - looked_ns_ < kLookNs) return;
  looked_ns_ = now_ns;
  std::string versions = Versions();
  if (versions == versions_) return;
  versions_ = std::move(versions);
  Result<SSL_CTX*> ssl = Read(library_, options_);
  if (!ssl.ok()) {
    FUSEWIRE_LOG(kWarn,
                 "TLS goes on with the certificates that it has: the new ones cannot be read: %s; see: fusewire "
                 "explain trust#tls",
                 ssl.status().ToString().c_str());
    return;
  }
  library_.SSL_CTX_free(ssl_);  // sessions keep their own reference
  ssl_ = ssl.value();
  FUSEWIRE_LOG(kInfo, "TLS has read its certificates again: %s", options_.certificate.c_str());
}

Result<std::unique_ptr<Session>> TlsContext::NewSession(bool is_dialled) {
  if (!is_dialled) {
    auto make = [self = shared_from_this()] { return self->NewSsl(false); };
    return std::unique_ptr<Session>(std::make_unique<TlsSession>(library_, std::move(make)));
  }
  SSL* ssl = FUSEWIRE_TRY(NewSsl(true));
  return std::unique_ptr<Session>(std::make_unique<TlsSession>(library_, ssl));
}

Result<SSL*> TlsContext::NewSsl(bool is_dialled) {
  SSL* ssl = nullptr;
  {
    MutexLock lock(mutex_);
    ReadAgain();
    ssl = library_.SSL_new(ssl_);
  }
  if (ssl == nullptr) return Status::Overloaded("no memory for a TLS session");
  if (!options_.name.empty() && library_.SSL_set1_host(ssl, options_.name.c_str()) != 1) {
    library_.SSL_free(ssl);
    return Status::Invalid("FUSEWIRE_TLS_NAME is \"" + options_.name + "\", which no certificate can have");
  }
  (is_dialled ? library_.SSL_set_connect_state : library_.SSL_set_accept_state)(ssl);
  return ssl;
}

Result<std::string> TlsContext::DescribeCertificate() {
  MutexLock lock(mutex_);
  X509* const own = library_.SSL_CTX_get0_certificate(ssl_);
  char subject[256] = "";
  library_.X509_NAME_oneline(library_.X509_get_subject_name(own), subject, sizeof(subject));
  const std::string whose = std::string("certificate of ") + subject;
  int days = 0, seconds = 0;
  if (library_.ASN1_TIME_diff(&days, &seconds, nullptr, library_.X509_get0_notAfter(own)) != 1)
    return Status::Invalid(whose + ": its expiry date cannot be read");
  const std::string file = options_.certificate;
  if (days < 0 || seconds < 0) {
    return Status::Refused(whose + " in \"" + file + "\": it expired " + std::to_string(-days) + " days ago")
        .Next("have a new one issued, and put it into the same file: it is read again");
  }
  return whose + ", for " + std::to_string(days) + " more days";
}

// ---- a session ----

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
    Begin(FUSEWIRE_TRY(make_ssl_()));
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
      return Status::Internal("TLS accepts no more data, although there is room for all that it writes");
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

// ---- the transport ----

Result<std::unique_ptr<Transport>> MakeTls(std::unique_ptr<Transport> beneath, TlsOptions options) {
  TlsContextPtr context = FUSEWIRE_TRY(TlsContext::Load(std::move(options)));
  auto make_session = [context = std::move(context)](bool is_dialled) { return context->NewSession(is_dialled); };
  return MakeLayer(std::move(beneath), kSessionBytes, std::move(make_session));
}

Result<std::string> TryTls(const TlsOptions& options) {
  const TlsLibrary* library = FUSEWIRE_TRY(TlsLibrary::The());
  const std::string version = library->OpenSSL_version(OPENSSL_VERSION);
  if (options.certificate.empty()) return version;
  TlsContextPtr context = FUSEWIRE_TRY(TlsContext::Load(options));
  Result<std::string> certificate = context->DescribeCertificate();
  if (!certificate.ok()) return certificate;
  return certificate.value() + ", " + version;
}

#else

Result<std::unique_ptr<Transport>> MakeTls(std::unique_ptr<Transport>, TlsOptions options) {
  return TryTls(options).status();
}

Result<std::string> TryTls(const TlsOptions&) {
  return Status::Invalid("this Fusewire was built without OpenSSL 3")
      .Next("install libssl-dev, and build Fusewire again");
}

#endif

}  // namespace fusewire::transport
