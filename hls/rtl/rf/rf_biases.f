../axis/axis_skid.sv
rf_load.sv
rf_biases.sv
