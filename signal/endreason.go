package signal

// EndReason says why the sequencer ended a read. The names are those of the
// formats.
type EndReason uint8

// The reasons that acquisition software gives.
const (
	EndUnknown                     EndReason = iota // not recorded
	EndMuxChange                                    // the channel switched to another well
	EndUnblockMuxChange                             // voltage was reversed to free the pore
	EndDataServiceUnblockMuxChange                  // ejected on request: adaptive sampling
	EndSignalPositive                               // the current returned to the open-pore level
	EndSignalNegative                               // the current fell out of range
	EndAPIRequest                                   // ended through the control interface
	EndDeviceDataError                              // the device lost data
	EndAnalysisConfigChange                         // analysis settings changed mid-read
	EndPaused                                       // acquisition was paused
	EndPartial                                      // written before it ended (early versions)
)

var endReasonNames = [...]string{
	EndUnknown:                     "unknown",
	EndMuxChange:                   "mux_change",
	EndUnblockMuxChange:            "unblock_mux_change",
	EndDataServiceUnblockMuxChange: "data_service_unblock_mux_change",
	EndSignalPositive:              "signal_positive",
	EndSignalNegative:              "signal_negative",
	EndAPIRequest:                  "api_request",
	EndDeviceDataError:             "device_data_error",
	EndAnalysisConfigChange:        "analysis_config_change",
	EndPaused:                      "paused",
	EndPartial:                     "partial",
}

// String returns the name by which files and sequencers know the reason.
func (e EndReason) String() string {
	if int(e) < len(endReasonNames) {
		return endReasonNames[e]
	}
	return endReasonNames[EndUnknown]
}

// ParseEndReason returns the reason with the given name; ok is false, and the
// reason EndUnknown, for a name outside the vocabulary.
func ParseEndReason(name string) (reason EndReason, ok bool) {
	for i, n := range endReasonNames {
		if n == name {
			return EndReason(i), true
		}
	}
	return EndUnknown, false
}

// Forced reports whether the sequencer itself ends a read for this reason, which
// BLOW5 doesn't record.
func (e EndReason) Forced() bool {
	switch e {
	case EndMuxChange, EndUnblockMuxChange, EndDataServiceUnblockMuxChange,
		EndAPIRequest, EndDeviceDataError, EndAnalysisConfigChange, EndPaused:
		return true
	}
	return false
}
