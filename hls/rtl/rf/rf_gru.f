../axis/ap_fixed_pkg.sv
rf_pkg.sv
../axis/fixed_cast.sv
rf_rom.sv
rf_lookup.sv
rf_gru.sv
