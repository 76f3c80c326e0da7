# Filters the output of `cargo test -- --show-output` and `node --test`. Removes the
# output of passed tests, and adds the number of tests and the tests that could not run.
# Fails if no test ran, or if a test could not run and LAGGARD_TESTS is `required`.

function place(test) {
	return "  " (program == "" ? "" : program ": ") (test == "" ? "" : test ": ")
}

function could_not_run(test, why) {
	skipped[++skips] = place(test) why
}

/^ +(Running|Doc-tests) / {
	# `Running tests/limited.rs (target/debug/deps/limited-0123456789abcdef)`
	program = $NF
	gsub(/[()]/, "", program)
	sub(/.*\//, "", program)
	sub(/-[0-9a-f]+$/, "", program)
}

# Output of passed tests, then their names.
/^successes:$/ {
	quiet = 1
	test = ""
}

/^failures:$/ || /^test result: / {
	quiet = 0
	test = ""
}

/^---- .* stdout ----$/ {
	test = $0
	sub(/^---- /, "", test)
	sub(/ stdout ----$/, "", test)
}

/^skipped: / {
	could_not_run(test, substr($0, 10))
}

/^test .* \.\.\. ignored/ {
	name = $0
	sub(/^test /, "", name)
	why = name
	sub(/ \.\.\. ignored.*/, "", name)
	sub(/.* \.\.\. ignored(, )?/, "", why)
	ignored[++ignores] = place(name) why
}

# `test result: ok. 12 passed; 0 failed; 1 ignored; ...`
/^test result: / {
	passed += $4
	failed += $6
}

# Node: `# pass 12` or, newer, `ℹ pass 12`.
/^(#|ℹ) (pass|fail) [0-9]+$/ {
	program = ""
	if ($2 == "pass")
		passed += $3
	else
		failed += $3
}

# `ok 3 - NAME # SKIP WHY`, or `﹣ NAME (0.1ms) # WHY`
/^ *ok [0-9]+ - .* # SKIP / || /^ *﹣ .* # / {
	name = $0
	sub(/^ *(ok [0-9]+ -|﹣) /, "", name)
	why = name
	sub(/( \([0-9.]+ms\))? # .*/, "", name)
	sub(/.* # (SKIP )?/, "", why)
	program = "page"
	could_not_run(name, why)
}

!quiet {
	print
	fflush()
}

END {
	printf "\n%d tests passed, %d failed.\n", passed, failed
	if (passed + failed == 0) {
		print "No test ran: this is a failure"
		exit 1
	}
	if (ignores > 0) {
		printf "Run only when asked for: %d\n", ignores
		for (at = 1; at <= ignores; at++)
			print ignored[at]
	}
	if (skips > 0) {
		printf "Could not run here, or not all of it, and did not fail: %d\n", skips
		for (at = 1; at <= skips; at++)
			print skipped[at]
		if (ENVIRON["LAGGARD_TESTS"] == "required") {
			print "LAGGARD_TESTS=required: this is a failure"
			exit 1
		}
	}
}
