tensor_turns.sv
axis_tensor_unpack.sv
