../axis/axis_skid.sv
rf_lanes.sv
