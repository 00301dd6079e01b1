rf_cast.sv
