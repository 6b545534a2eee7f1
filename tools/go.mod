module github.com/tombolo-dev/tombolo/tools

go 1.26.0
