// Makes Claude Code answer what its own argument parser makes of command lines, instead of working.
//
// Loaded into the real binary with BUN_OPTIONS=--preload=<this file>. Its first command line leads here the
// moment before it would act; then each line of LAB_LINES (a JSON array of arguments) is given to the same
// parser, and LAB_ANSWERS gets one JSON object a line:
//   {"options": [...], "commands": [...]}      first: what the parser knows
//   {"operands": [...], "options": {...}}     a line that would have run, and what was set
//   {"command": "name"}                       a line that would have run a subcommand
//   {"exit": N, "said": "..."}                a line at which it would have ended
const fs = require("fs");
const { find, reverse } = Array.prototype;
const isParser = (thing) => typeof thing?.parseOptions === "function";
const END = {};

function answerAll(program) {
  let answer;
  let said = "";
  const end = (value) => {
    answer ??= value;
    throw END;
  };
  // The parser lists its ancestors in reverse just before it acts, and finds a subcommand just before it goes there.
  Array.prototype.reverse = function () {
    if (isParser(this[0])) end({ operands: this[0].args, options: set(program) });
    return reverse.call(this);
  };
  Array.prototype.find = function (...how) {
    const found = find.apply(this, how);
    if (isParser(found)) end({ command: found.name() });
    return found;
  };
  process.exit = (code) => end({ exit: code ?? 0, said });
  process.stdout.write = process.stderr.write = (text) => ((said += text), true);

  const initial = { ...program.opts() };
  const defaults = {};
  for (const name of Object.keys(initial))
    if (program.getOptionValueSource(name) === "default") defaults[name] = initial[name];
  const known = program.options.map(({ flags, required, optional, variadic }) => ({ flags, required, optional, variadic }));
  const answers = [JSON.stringify({ options: known, commands: program.commands.flatMap((one) => [one.name(), ...one.aliases()]) })];
  for (const line of fs.readFileSync(process.env.LAB_LINES, "utf8").split("\n").filter(Boolean)) {
    for (const name of Object.keys(program.opts())) delete program.opts()[name];
    for (const name of Object.keys(defaults)) program.setOptionValueWithSource(name, defaults[name], "default");
    answer = undefined;
    said = "";
    program.parseAsync(["claude", "claude", ...JSON.parse(line)]).catch(() => {});
    answers.push(JSON.stringify(answer ?? { exit: 0, said }));
  }
  fs.writeFileSync(process.env.LAB_ANSWERS, answers.join("\n") + "\n");
  process.reallyExit(0);
}

function set(program) {
  const values = program.opts();
  return Object.fromEntries(Object.keys(values).filter((name) => program.getOptionValueSource(name) === "cli").map((name) => [name, values[name]]));
}

Array.prototype.reverse = function () {
  const program = this[this.length - 1];
  if (isParser(program)) answerAll(program);
  return reverse.call(this);
};
