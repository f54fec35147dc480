// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
// For tests: authorities and certificates, made by the command openssl in a folder of their own.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "fusewire/base/check.h"
#include "fusewire/transport/protection.h"

namespace fusewire::transport {

class Certificates {
 public:
  Certificates() {
    static std::atomic<int> number{0};
    folder_ = std::filesystem::temp_directory_path() /
              ("fusewire-tls-" + std::to_string(getpid()) + "-" + std::to_string(++number));
    std::filesystem::create_directories(folder_);
    MakeAuthority("ca");
    Make("task", "ca");
  }
  ~Certificates() { std::filesystem::remove_all(folder_); }
  Certificates(const Certificates&) = delete;

  std::string folder() const { return folder_.string(); }
  std::string File(const std::string& name) const { return (folder_ / name).string(); }
  void MakeAuthority(const std::string& name) const {
    Run("req -x509 -days 2 -subj /CN=" + name + NewKey(name) + " -out " + File(name + ".crt"));
  }
  // Signed by the authority; for the host `name`.
  void Make(const std::string& name, const std::string& authority, const std::string& days = "2") const {
    std::ofstream(File(name + ".ext")) << "basicConstraints=critical,CA:FALSE\nsubjectAltName=DNS:" << name << "\n";
    Run("req -new -subj /CN=" + name + NewKey(name) + " -out " + File(name + ".csr"));
    Run("x509 -req -in " + File(name + ".csr") + " -days " + days + " -CA " + File(authority + ".crt") + " -CAkey " +
        File(authority + ".key") + " -CAcreateserial -extfile " + File(name + ".ext") + " -out " + File(name + ".crt"));
  }
  TlsOptions Options(const std::string& task = "task", const std::string& authority = "ca") const {
    TlsOptions options;
    options.certificate = File(task + ".crt");
    options.key = File(task + ".key");
    options.authorities = File(authority + ".crt");
    return options;
  }

 private:
  std::string NewKey(const std::string& name) const {
    return " -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -keyout " + File(name + ".key");
  }
  void Run(const std::string& words) const {
    const std::string command = "openssl " + words + " >>" + File("log") + " 2>&1";
    FUSEWIRE_CHECK(std::system(command.c_str()) == 0);
  }
  std::filesystem::path folder_;
};

}  // namespace fusewire::transport
