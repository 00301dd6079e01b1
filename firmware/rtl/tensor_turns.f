tensor_turns.sv
