//! Aligned columns.

/// Rows under a header, columns two spaces apart. Cells must be safe already; the last column is not padded.
pub fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = header.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let header: Vec<String> = header.iter().map(|cell| (*cell).to_owned()).collect();
    std::iter::once(&header).chain(rows).map(|row| line(row, &widths)).collect()
}

fn line(row: &[String], widths: &[usize]) -> String {
    let cells: Vec<String> = row
        .iter()
        .zip(widths)
        .map(|(cell, width)| format!("{cell}{}", " ".repeat(width - cell.chars().count())))
        .collect();
    format!("{}\n", cells.join("  ").trim_end())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_by_characters() {
        let rows = [
            vec!["é".to_owned(), "running".to_owned(), String::new()],
            vec!["long name".to_owned(), "x".to_owned(), "end".to_owned()],
        ];
        assert_eq!(
            table(&["A", "STATE", "C"], &rows),
            "A          STATE    C\né          running\nlong name  x        end\n"
        );
    }
}
