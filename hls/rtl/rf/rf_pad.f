../axis/axis_skid.sv
rf_pad.sv
