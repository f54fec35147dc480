// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/transport/tls/context.h"

#include <sys/stat.h>

#include <utility>

#include "fusewire/base/log.h"

namespace fusewire::transport {

#if FUSEWIRE_HAS_TLS
namespace {

// All that TLS 1.3 has to have, the quickest first.
constexpr char kCiphers[] = "TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256";
constexpr int64_t kLookNs = kSecondNs;  // at the files, at most so often

Status Wrong(const TlsLibrary& library, const char* setting, const std::string& file, const char* what) {
  const char* words = library.ERR_reason_error_string(library.LastError());
  return Status::Invalid(std::string(setting) + " is \"" + file + "\": " + what +
                         (words == nullptr ? "" : std::string(": ") + words))
      .Next("name a file in PEM that this user can read");
}

// No question at the terminal.
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
  Result<const TlsLibrary*> library = TlsLibrary::The();
  if (!library.ok()) return library.status();
  Result<SSL_CTX*> ssl = Read(*library.value(), options);
  if (!ssl.ok()) return ssl.status();
  return TlsContextPtr(
      std::unique_ptr<TlsContext>(new TlsContext(*library.value(), std::move(options), clock, ssl.value())));
}

TlsContext::TlsContext(const TlsLibrary& library, TlsOptions options, Clock* clock, SSL_CTX* ssl)
    : library_(library), options_(std::move(options)), clock_(clock), ssl_(ssl), versions_(Versions()) {}

TlsContext::~TlsContext() { library_.SSL_CTX_free(ssl_); }

Result<SSL_CTX*> TlsContext::Read(const TlsLibrary& library, const TlsOptions& options) {
  library.ERR_clear_error();
  std::unique_ptr<SSL_CTX, decltype(library.SSL_CTX_free)> made(library.SSL_CTX_new(library.TLS_method()),
                                                                library.SSL_CTX_free);
  if (made == nullptr) return Status::Overloaded("OpenSSL makes no context");
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
    return Wrong(library, "FUSEWIRE_TLS_KEY", options.key, "it is not the certificate's");
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
    FUSEWIRE_LOG(
        kWarn, "TLS goes on with the certificates that it has: the new ones cannot be read: %s; see docs/trust.md#tls",
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
  Result<SSL*> ssl = NewSsl(true);
  if (!ssl.ok()) return ssl.status();
  return std::unique_ptr<Session>(std::make_unique<TlsSession>(library_, ssl.value()));
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
    return Status::Invalid(whose + ": the end of its time cannot be read");
  const std::string file = options_.certificate;
  if (days < 0 || seconds < 0) {
    return Status::Refused(whose + " in \"" + file + "\": its time was over " + std::to_string(-days) + " days ago")
        .Next("have a new one issued, and put it into the same file: it is read again");
  }
  return whose + ", for " + std::to_string(days) + " more days";
}

#endif

}  // namespace fusewire::transport
