// Copyright 2026 The Fusewire Authors. SPDX-License-Identifier: Apache-2.0
#include "fusewire/tf/state/devices.h"

#include <utility>
#include <vector>

#include <absl/strings/str_cat.h>
#include <tensorflow/core/common_runtime/device_factory.h>
#include <tensorflow/core/public/session_options.h>

namespace fusewire::tf {

std::string ShortDevice(const std::string& device) {
  const std::string word = "/device:";
  const size_t at = device.rfind(word);
  return at == std::string::npos ? device : device.substr(at + word.size());
}

TfStatus MakeDevices(const tensorflow::ServerDef& def, const Incarnations& known,
                     std::unique_ptr<tensorflow::DeviceMgr>* out) {
  tensorflow::SessionOptions options;
  options.config = def.default_session_config();
  std::vector<std::unique_ptr<tensorflow::Device>> devices;
  TF_RETURN_IF_ERROR(tensorflow::DeviceFactory::AddDevices(
      options, absl::StrCat("/job:", def.job_name(), "/replica:0/task:", def.task_index()), &devices));
  // Before the manager is made, which indexes them. The attributes are a plain member of each device, which only its
  // accessor makes const.
  for (const auto& device : devices) {
    const auto found = known.find(ShortDevice(device->name()));
    if (found == known.end()) continue;
    const_cast<tensorflow::DeviceAttributes&>(device->attributes()).set_incarnation(found->second);
  }
  *out = std::make_unique<tensorflow::StaticDeviceMgr>(std::move(devices));
  return TfStatus();
}

Incarnations IncarnationsOf(const tensorflow::DeviceMgr& devices) {
  Incarnations known;
  for (const tensorflow::Device* device : devices.ListDevices())
    known[ShortDevice(device->name())] = device->attributes().incarnation();
  return known;
}

uint64_t StateOf(const tensorflow::DeviceMgr& devices) { return devices.HostCPU()->attributes().incarnation(); }

}  // namespace fusewire::tf
