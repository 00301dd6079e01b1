rf_rom.sv
