rf_rom.sv
rf_cast.sv
rf_lookup.sv
rf_gru.sv
