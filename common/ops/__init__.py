"""The ground floor: functions of tensors and arrays without state."""
